"""Databases that tests share because they only read them: one of each kind a session, which refuse to be changed.

A test or a module that is marked `reads` gets one of them where another test gets a clone of its own; `writes` takes a
test out of a module that is marked so. Whatever tries to change a shared database is refused, and the test during
which that happened fails, even where the refusal was swallowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine, text

from api.tokens import issue
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from projections.engine.projector import Projector

if TYPE_CHECKING:
    from tests.conftest import Database

Copies = Callable[[], AbstractContextManager[Callable[[str], "Database"]]]
"""A scope in which a function makes databases from a template; at its end they are dropped."""

HOLDER = "tester"
"""Whose token a test presents over HTTP."""

# A sequence counts on where a transaction is rolled back, so it tells of refusals that nobody saw.
_REFUSE = """
CREATE SCHEMA shared;
CREATE SEQUENCE shared.refusals MINVALUE 0 START 0;
CREATE FUNCTION shared.refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM nextval('shared.refusals');
    RAISE EXCEPTION 'tests share this database and only read it: % on % is refused', TG_OP, TG_TABLE_NAME
        USING HINT = 'mark the test `writes`, so that it gets a database of its own';
END $$;
DO $$
DECLARE
    name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'flywheel_default'::regnamespace AND relkind IN ('r', 'p')
    LOOP
        EXECUTE format('CREATE TRIGGER a_refusal BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
            'FOR EACH STATEMENT EXECUTE FUNCTION shared.refuse()', name);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER a_refusal', name);
    END LOOP;
END $$;
"""

# The refusals, and a digest of every table, index, sequence, trigger and function there is.
_STATE = """
SELECT (SELECT last_value + is_called::integer FROM shared.refusals) AS refusals,
    (SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
        SELECT format('%s %s', oid, xmin) FROM pg_class WHERE relpersistence <> 't'
        UNION ALL SELECT format('%s %s', oid, xmin) FROM pg_trigger
        UNION ALL SELECT format('%s %s', oid, xmin) FROM pg_proc
        UNION ALL SELECT format('%s %s', oid, xmin) FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'
    ) AS catalog (line)) AS catalog
"""


def only_reads(item: pytest.Item) -> bool:
    """Whether a test may share its database: the nearest of the marks `reads` and `writes` says so."""
    nearest = (mark.name for mark in item.iter_markers() if mark.name in {"reads", "writes"})
    return next(nearest, "writes") == "reads"


class Shared:
    """One shared database. With a token, its log ends with a token that was issued to HOLDER."""

    def __init__(self, database: Database, *, has_token: bool) -> None:
        self.database = database
        self.engine = open_engine(database.app_url)
        store = PostgresStore(self.engine)
        self.token = issue(store, HOLDER, "test", "operate") if has_token else None
        Projector(self.engine, store=store).catch_up()
        self._owner = open_engine(database.owner_url, pool_size=1)
        with self._owner.begin() as connection:
            connection.execute(text(_REFUSE))

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()
        self._owner.dispose()

    @contextmanager
    def read(self) -> Iterator[Database]:
        """Lend the database. Fails the test where something was changed, or was to be."""
        before = self._state()
        yield self.database
        refusals, catalog = self._state()
        if refusals != before[0]:
            pytest.fail(
                f"this test tried {refusals - before[0]} times to change a database that tests share, and was refused: "
                "mark it `writes`, so that it gets a database of its own",
                pytrace=False,
            )
        if catalog != before[1]:
            pytest.fail("this test changed the schema of a database that tests share: mark it `writes`", pytrace=False)

    def _state(self) -> tuple[int, str]:
        with self._owner.connect() as connection:
            row = connection.execute(text(_STATE)).one()
        return row.refusals, row.catalog


class SharedDatabases:
    """The shared databases of a session, made when they are first asked for."""

    def __init__(self, create: Callable[[str], Database]) -> None:
        self._create = create
        self._kept: dict[tuple[str, bool], Shared] = {}

    def of(self, kind: str, request: pytest.FixtureRequest) -> Shared:
        """The one of a kind; a test that has a `client` gets one with a token for it."""
        which = kind, "client" in request.fixturenames
        if which not in self._kept:
            self._kept[which] = Shared(self._create(kind), has_token=which[1])
        return self._kept[which]

    def on(self, database: Database) -> Shared | None:
        """What is kept of a database, if it is a shared one."""
        return next((each for each in self._kept.values() if each.database == database), None)

    def token(self, engine: Engine) -> str | None:
        """The token at the end of the log that an engine is opened on, if that is a shared one."""
        kept = (each for each in self._kept.values() if each.engine is engine)
        return next((each.token for each in kept), None)

    def close(self) -> None:
        """Give all connections back."""
        for each in self._kept.values():
            each.close()


@contextmanager
def lend(kind: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database for one test, `empty` or `seeded`: a clone of its own, or the shared one where it only reads."""
    if only_reads(request.node):
        shared: SharedDatabases = request.getfixturevalue("shared_databases")
        with shared.of(kind, request).read() as database:
            yield database
    else:
        create: Callable[[str], Database] = request.getfixturevalue("clone")
        yield create(kind)


@contextmanager
def open_on(database: Database, shared: SharedDatabases) -> Iterator[Engine]:
    """The application's engine on a database; that of a shared one stays open."""
    kept = shared.on(database)
    if kept is not None:
        yield kept.engine
        return
    opened = open_engine(database.app_url)
    yield opened
    opened.dispose()
