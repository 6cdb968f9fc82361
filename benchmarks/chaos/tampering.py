"""Changes the log behind its guards, as its owner can, and counts which changes are found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, text

from eventlog.database import open_engine
from eventlog.events import MemoryQuarantined
from eventlog.postgres import PostgresStore
from eventlog.store import Append
from projections.engine.compare import compare
from projections.engine.projector import Projector
from projections.engine.views import catch_up_views

from .cluster import Cluster
from .proof import is_damaged

_PROJECT = "tampering"
_APPENDS = 40
_PLACE = 20
_KEY_CHANGES = (
    f"UPDATE append_keys SET key = 'another' WHERE first_position = {_PLACE}",  # noqa: S608 our own text
    f"UPDATE append_keys SET digest = sha256('') WHERE first_position = {_PLACE}",  # noqa: S608 our own text
    f"UPDATE append_keys SET chain = sha256('') WHERE first_position = {_PLACE}",  # noqa: S608 our own text
)
_GUARDS = text("SELECT tgname FROM pg_trigger WHERE tgrelid = CAST(:name AS regclass) AND NOT tgisinternal")
_KEEP = f"CREATE TABLE kept AS SELECT * FROM append_keys WHERE first_position = {_PLACE}"  # noqa: S608 our own text
_RESTORE = f"""DELETE FROM append_keys WHERE first_position = {_PLACE}; INSERT INTO append_keys SELECT * FROM kept;
    DROP TABLE kept"""  # noqa: S608 our own text
_AHEAD = "UPDATE builds SET position = position + 3 WHERE projection = 'runs'"
_BACK = "UPDATE builds SET position = position - 3 WHERE projection = 'runs'"


def tampering(cluster: Cluster) -> dict[str, float]:
    """Rename a key, change its digest and its chain value, move a bookmark; undo each. Return how many were found."""
    url = cluster.project(_PROJECT)
    engine, owner = open_engine(url, _PROJECT), open_engine(cluster.up().owner_url, _PROJECT)
    try:
        store = PostgresStore(engine)
        for number in range(_APPENDS):
            event = MemoryQuarantined(piece=f"piece-{number}", kind="rewrite", restored=1, reason="chaos")
            store.append([Append("pieces", (event,), "chaos", key=f"key-{number}")])
        alarms = int(is_damaged(engine)) + _differing(engine)
        found = sum(_is_found(engine, owner, change) for change in _KEY_CHANGES)
        with _changed(owner, "builds", _AHEAD, _BACK):
            ahead = _differing(engine)
    finally:
        engine.dispose()
        owner.dispose()
    return {
        "tampering: keys changed": float(len(_KEY_CHANGES)),
        "tampering: changed keys not found": float(len(_KEY_CHANGES) - found),
        "tampering: bookmarks ahead that were found": float(ahead),
        "tampering: alarms without a cause": float(alarms),
    }


def _is_found(engine: Engine, owner: Engine, change: str) -> bool:
    with _changed(owner, "append_keys", f"{_KEEP}; {change}", _RESTORE):
        return is_damaged(engine)


def _differing(engine: Engine) -> int:
    """How many projections differ from a fold of the log."""
    views = catch_up_views(Projector(engine), engine, PostgresStore(engine))
    return sum(not found.is_identical for found in compare(views))


@contextmanager
def _changed(owner: Engine, table: str, change: str, undo: str) -> Iterator[None]:
    """A table with a change, made with its guards off; afterwards it is as before."""
    _without_guards(owner, table, change)
    try:
        yield
    finally:
        _without_guards(owner, table, undo)


def _without_guards(owner: Engine, table: str, statements: str) -> None:
    with owner.begin() as connection:
        guards = connection.execute(_GUARDS, {"name": table}).scalars().all()
        connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        for statement in statements.split(";"):
            connection.execute(text(statement))
        for guard in guards:
            connection.execute(text(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {guard}"))
