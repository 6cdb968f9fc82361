"""Migrating: once, again, by several at once; a schema of another version is adopted or named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any, cast

import psycopg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

import migrations
from api.house import check_schema
from eventlog.appending import by_call
from eventlog.codec import encode_append
from eventlog.database import open_engine
from eventlog.errors import ForeignSchema, LogFull, UnreleasedSchema
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Position
from migrations.migrate import migrate, newest_revision, version_of
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_rows, sample


def test_the_newest_migration_is_the_head_that_alembic_knows() -> None:
    assert newest_revision() == ScriptDirectory(str(Path(migrations.__file__).parent)).get_current_head()


@pytest.fixture
def fresh(clone: Callable[[str], Database]) -> Database:
    """A database that holds another project, so that the project `fresh` is not there yet."""
    return clone("empty")


@pytest.fixture
def opened() -> Iterator[Callable[[str, str], Engine]]:
    """A function that opens engines, which are closed afterwards."""
    engines: list[Engine] = []

    def make(url: str, project: str) -> Engine:
        engines.append(open_engine(url, project))
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


def tables(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(
            connection.execute(
                text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1")
            ).scalars()
        )


def test_migrating_again_changes_nothing_and_keeps_the_log(owner_engine: Engine, database: Database) -> None:
    before = tables(owner_engine)
    migrate(owner_engine, app_role=database.app_role)
    migrate(owner_engine)
    assert tables(owner_engine) == before
    kept = list(PostgresStore(owner_engine).read_stored())
    assert [(row.position, row.chain) for row in kept] == [(row.position, row.chain) for row in golden_rows()]


def test_several_may_migrate_at_once_and_append_as_soon_as_one_is_done(
    fresh: Database, opened: Callable[[str, str], Engine]
) -> None:
    owners = [opened(fresh.owner_url, "fresh") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda owner: migrate(owner, app_role=fresh.app_role), owners))
    engine = opened(fresh.app_url, "fresh")
    check_schema(engine)
    outcomes = PostgresStore(engine).append([Append("s", (sample("RewriteWon"),), "test")])
    assert list(outcomes) == [Committed(Position(1), Position(1), 1)]


def test_a_schema_that_is_not_there_is_named_with_the_way_out(
    fresh: Database, opened: Callable[[str, str], Engine]
) -> None:
    with pytest.raises(ForeignSchema) as caught:
        check_schema(opened(fresh.app_url, "fresh"))
    assert caught.value.facts["schema"] == "flywheel_fresh"
    assert (caught.value.facts["actual"], caught.value.facts["expected"]) == ("none", newest_revision())
    assert "flywheel db migrate" in str(caught.value)


def set_version(owner: Engine, version: str) -> None:
    with owner.begin() as connection:
        connection.execute(text("UPDATE migration SET version_num = :version"), {"version": version})


@pytest.mark.parametrize(
    ("version", "way_out"),
    [("0001", "flywheel log import"), ("0007", "flywheel db migrate"), ("9999", "upgrade flywheel")],
)
def test_a_schema_of_another_version_is_named_with_the_way_out(
    engine: Engine, owner_engine: Engine, version: str, way_out: str
) -> None:
    set_version(owner_engine, version)
    with pytest.raises(ForeignSchema, match=way_out) as caught:
        check_schema(engine)
    assert caught.value.facts["actual"] == version


@pytest.mark.parametrize(
    ("version", "kind", "way_out"),
    [
        ("0001", UnreleasedSchema, "flywheel log export.*empty project.*flywheel log import"),
        ("0006", UnreleasedSchema, "flywheel log export.*empty project.*flywheel log import"),
        ("9999", ForeignSchema, "upgrade flywheel"),
    ],
)
def test_a_schema_that_nothing_leads_on_from_is_refused_and_left_as_it_is(
    database: Database, owner_engine: Engine, version: str, kind: type[ForeignSchema], way_out: str
) -> None:
    set_version(owner_engine, version)
    with pytest.raises(kind, match=way_out) as caught:
        migrate(owner_engine, app_role=database.app_role)
    assert type(caught.value) is kind
    with owner_engine.connect() as connection:
        assert version_of(connection) == version
    assert [row.chain for row in PostgresStore(owner_engine).read_stored()] == [row.chain for row in golden_rows()]


def test_a_schema_with_the_tables_of_the_first_version_is_adopted_as_that(
    database: Database, engine: Engine, owner_engine: Engine
) -> None:
    before = tables(owner_engine)
    set_version(owner_engine, "0007")
    migrate(owner_engine, app_role=database.app_role)
    check_schema(engine)
    assert tables(owner_engine) == before
    store = PostgresStore(engine)
    assert [row.chain for row in store.read_stored()] == [row.chain for row in golden_rows()]
    (outcome,) = store.append([Append("s", (sample("RewriteWon"),), "test")])
    assert outcome == Committed(Position(len(golden_rows()) + 1), Position(len(golden_rows()) + 1), 1)


def test_a_schema_of_this_version_is_fine(engine: Engine) -> None:
    check_schema(engine)


def test_migrating_reserves_positions_again_when_the_log_is_full(
    fresh: Database, opened: Callable[[str, str], Engine]
) -> None:
    owner, engine = opened(fresh.owner_url, "default"), opened(fresh.app_url, "default")
    with owner.begin() as connection:
        connection.execute(text("DROP TABLE events_1"))
    request = Append("s", (sample("RewriteWon"),), "test")
    with pytest.raises(LogFull, match="flywheel db migrate"):
        PostgresStore(engine).append([request])
    assert PostgresStore(engine).head() == START
    migrate(owner, app_role=fresh.app_role)
    assert list(PostgresStore(engine).append([request])) == [Committed(Position(1), Position(1), 1)]


def before_growth(owner: Engine) -> None:
    """Make the schema what it was at migration 0009, as far as migration 0010 changes it."""
    with owner.begin() as connection:
        connection.execute(text("DROP INDEX types"))
        connection.execute(text("CREATE INDEX withdrawals ON events (position) WHERE type = 'RunsWithdrawn'"))
    set_version(owner, "0009")


def wait_until_it_holds_up_another(watching: Connection, session: int) -> None:
    """Wait until another session waits for a lock of this session."""
    held_up = text("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE :session = ANY(pg_blocking_pids(pid)))")
    for _ in range(1000):
        if watching.execute(held_up, {"session": session}).scalar_one():
            return
        watching.rollback()
        sleep(0.01)
    pytest.fail("nothing waits for a lock of this session")


def test_a_migration_lets_an_append_and_a_rebuild_that_began_before_it_end(
    engine: Engine, owner_engine: Engine, database: Database
) -> None:
    before_growth(owner_engine)
    with (
        ThreadPoolExecutor(1) as pool,
        engine.connect() as appending,
        engine.connect() as rebuilding,
        engine.connect() as watching,
    ):
        mine, theirs = (each.execute(text("SELECT pg_backend_pid()")).scalar_one() for each in (appending, rebuilding))
        appending.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0))"))
        head = appending.execute(text("SELECT max(position) FROM events")).scalar_one()
        build = rebuilding.execute(text("INSERT INTO builds (projection, version) VALUES ('x', 1) RETURNING build"))
        number = build.scalar_one()
        rebuilding.commit()
        rebuilding.execute(text("INSERT INTO fold_rows VALUES (:build, 'k', 1, 1, 'null')"), {"build": number})
        migrating = pool.submit(migrate, owner_engine, app_role=database.app_role)
        wait_until_it_holds_up_another(watching, mine)
        driver = cast("psycopg.Connection[Any]", appending.connection.driver_connection)
        request = encode_append(Append("s", (sample("RewriteWon"),), "test"))
        assert by_call(driver.cursor(binary=True), [request]) == [Committed(head + 1, head + 1, 1)]
        appending.commit()
        wait_until_it_holds_up_another(watching, theirs)
        rebuilding.execute(text("UPDATE builds SET position = 1 WHERE build = :build"), {"build": number})
        rebuilding.commit()
        migrating.result(timeout=60)
    check_schema(engine)
    assert PostgresStore(engine).head() == head + 1
