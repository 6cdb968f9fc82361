"""Builds: the tables of folds, the position of each, and which one is live. A build's row is also its lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine

from eventlog.database import project_schema, read_connection
from eventlog.store import Position

from .. import ALL
from ..errors import RebuildLost
from .projection import AnyFold

LIVE = "(SELECT build FROM builds WHERE projection = %s AND version = %s AND is_live)"
"""Subquery for the live build. It is part of the statement that reads the rows, so both come from one snapshot."""


@dataclass(frozen=True, slots=True)
class Build:
    """A table of a fold, up to `position`."""

    build: int
    projection: str
    version: int
    position: int
    is_parked: bool


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The position of a projection. `parked_at` and `parked_error` are set if it is parked."""

    projection: str
    version: int
    position: Position
    parked_at: int | None
    parked_error: str


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a projection: number of events not folded yet, and the age of the oldest of them in seconds."""

    projection: str
    version: int
    position: Position
    events: int
    seconds: float
    is_parked: bool


def _names_and_versions(folds: Sequence[AnyFold]) -> tuple[list[str], list[int]]:
    return [fold.name for fold in folds], [fold.version for fold in folds]


_LIVE_BUILDS = """SELECT w.projection, w.version, b.build, coalesce(b.position, 0) AS position, b.parked_at,
    coalesce(b.parked_error, '') AS parked_error, h.head
    FROM unnest(%s::text[], %s::integer[]) AS w (projection, version)
    LEFT JOIN builds b ON b.projection = w.projection AND b.version = w.version AND b.is_live
    CROSS JOIN (SELECT coalesce((SELECT position FROM events ORDER BY position DESC LIMIT 1), 0) AS head) h"""


def live_builds(connection: Connection, folds: Sequence[AnyFold]) -> tuple[list[Build], Position]:
    """The live build of each fold, created if there is none, and the head of the log."""
    rows = connection.exec_driver_sql(_LIVE_BUILDS, _names_and_versions(folds)).all()
    if any(row.build is None for row in rows):
        connection.exec_driver_sql(
            """INSERT INTO builds (projection, version, is_live) SELECT p, v, true
            FROM unnest(%s::text[], %s::integer[]) AS w (p, v) ORDER BY p, v ON CONFLICT DO NOTHING""",
            _names_and_versions(folds),
        )
        rows = connection.exec_driver_sql(_LIVE_BUILDS, _names_and_versions(folds)).all()
    builds = [Build(row.build, row.projection, row.version, row.position, row.parked_at is not None) for row in rows]
    return builds, Position(max((row.head for row in rows), default=0))


def lock_builds(connection: Connection, builds: Iterable[Build]) -> list[Build]:
    """Lock these builds and return their current state, without removed ones. The fixed order prevents deadlocks."""
    found = connection.exec_driver_sql(
        """SELECT build, projection, version, position, parked_at IS NOT NULL AS is_parked FROM builds
        WHERE build = ANY(%s) ORDER BY projection, version, build FOR UPDATE""",
        ([build.build for build in builds],),
    )
    return [Build(*row) for row in found]


def lock_live(connection: Connection, builds: Iterable[Build], target: int) -> list[Build]:
    """Lock, as `lock_builds` does, those of these builds that are live, not parked and before `target`."""
    found = connection.exec_driver_sql(
        """SELECT build, projection, version, position, false AS is_parked FROM builds
        WHERE build = ANY(%s) AND is_live AND parked_at IS NULL AND position < %s
        ORDER BY projection, version, build FOR UPDATE""",
        ([build.build for build in builds], target),
    )
    return [Build(*row) for row in found]


def move(connection: Connection, builds: Collection[int], position: int) -> None:
    """Set the position of builds. Raises RebuildLost if one of them was removed."""
    statement = "UPDATE builds SET position = %s WHERE build = ANY(%s)"
    if connection.exec_driver_sql(statement, (position, list(builds))).rowcount != len(builds):
        raise RebuildLost(actual="another rebuild removed the table that it was building")


def park(connection: Connection, build: int, reason: str) -> None:
    """Park a build at its current position, with the reason."""
    connection.exec_driver_sql(
        "UPDATE builds SET parked_at = position, parked_error = %s WHERE build = %s", (reason, build)
    )


def create_builds(connection: Connection, folds: Sequence[AnyFold]) -> list[Build]:
    """Create new builds beside the live ones."""
    found = connection.exec_driver_sql(
        """INSERT INTO builds (projection, version) SELECT * FROM unnest(%s::text[], %s::integer[])
        RETURNING build, projection, version""",
        _names_and_versions(folds),
    )
    return [Build(row.build, row.projection, row.version, 0, is_parked=False) for row in found]


def switch(connection: Connection, fresh: Iterable[Build]) -> None:
    """Make builds live instead of the current ones, which become dead. Raises RebuildLost if one was removed."""
    for build in fresh:
        connection.exec_driver_sql(
            "UPDATE builds SET is_live = false WHERE projection = %s AND version = %s AND is_live",
            (build.projection, build.version),
        )
        made = connection.exec_driver_sql("UPDATE builds SET is_live = true WHERE build = %s", (build.build,))
        if made.rowcount != 1:
            raise RebuildLost(actual=f"the new table of {build.projection} was removed")


def remove_dead_builds(connection: Connection, folds: Sequence[AnyFold]) -> None:
    """Remove builds of these folds that are not live, because they were replaced or never finished.

    A build that becomes live concurrently is kept. Rows of any fold without a build are removed too. The builds are
    locked in the order of `lock_live`: a catch-up that waited for a switch still holds those that were replaced.
    """
    connection.exec_driver_sql(
        """DELETE FROM builds WHERE build IN (
            SELECT b.build FROM builds b JOIN unnest(%s::text[], %s::integer[]) AS w (p, v)
                ON b.projection = w.p AND b.version = w.v
            WHERE NOT b.is_live ORDER BY b.projection, b.version, b.build FOR UPDATE OF b)""",
        _names_and_versions(folds),
    )
    _sweep(connection.engine)


_SWEEP = """WITH RECURSIVE seen (build) AS (
        (SELECT build FROM fold_rows ORDER BY build LIMIT 1)
        UNION ALL
        SELECT (SELECT r.build FROM fold_rows r WHERE r.build > s.build ORDER BY r.build LIMIT 1)
        FROM seen s WHERE s.build IS NOT NULL)
    DELETE FROM fold_rows WHERE build IN (
        SELECT s.build FROM seen s WHERE s.build IS NOT NULL
        AND NOT EXISTS (SELECT FROM builds b WHERE b.build = s.build))"""


def _sweep(engine: Engine) -> None:
    """Remove the rows that have no build, under a lock, because two concurrent sweeps could deadlock.

    A build is removed before its rows. Writers of rows update the build in the same transaction, so they cannot add
    rows to a removed build.
    """
    with engine.begin() as connection:
        lock = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
        connection.exec_driver_sql(lock, (f"{project_schema(engine)}/sweep",))
        connection.exec_driver_sql(_SWEEP)


def unknown(connection: Connection, folds: Sequence[AnyFold]) -> list[Bookmark]:
    """The live builds of projections and versions other than those of `folds`."""
    found = connection.exec_driver_sql(
        """SELECT projection, version, position, parked_at, coalesce(parked_error, '') FROM builds b
        WHERE is_live AND NOT EXISTS (SELECT FROM unnest(%s::text[], %s::integer[]) AS w (p, v)
            WHERE b.projection = w.p AND b.version = w.v) ORDER BY projection, version""",
        _names_and_versions(folds),
    )
    return [Bookmark(*row) for row in found]


def drop_unknown(connection: Connection, found: Iterable[Bookmark]) -> None:
    """Remove every build of these projections and versions, with its rows."""
    for one in found:
        name = (one.projection, one.version)
        connection.exec_driver_sql("DELETE FROM builds WHERE projection = %s AND version = %s", name)
    _sweep(connection.engine)


def claim_builds(connection: Connection, folds: Sequence[AnyFold]) -> None:
    """Take the session lock for building these folds; wait while another session holds it. Held until `release`."""
    for name in _claims(connection, folds):
        connection.exec_driver_sql("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (name,))


def release(connection: Connection, folds: Sequence[AnyFold]) -> None:
    """Release the session lock for building these folds."""
    for name in _claims(connection, folds):
        connection.exec_driver_sql("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (name,))


def _claims(connection: Connection, folds: Sequence[AnyFold]) -> list[str]:
    schema = project_schema(connection.engine)
    return sorted(f"{schema}/build/{fold.name}/{fold.version}" for fold in folds)


def bookmarks(engine: Engine, folds: Sequence[AnyFold] = ALL) -> Iterator[Bookmark]:
    """The bookmark of each fold; position 0 if it was never folded."""
    with read_connection(engine) as connection:
        rows = connection.exec_driver_sql(_LIVE_BUILDS, _names_and_versions(folds)).all()
    for row in rows:
        yield Bookmark(row.projection, row.version, Position(row.position), row.parked_at, row.parked_error)


def parked_bookmarks(engine: Engine) -> dict[str, Bookmark]:
    """The bookmarks of the folds that are parked, by projection."""
    return {each.projection: each for each in bookmarks(engine) if each.parked_at is not None}


def lags(engine: Engine, folds: Sequence[AnyFold] = ALL) -> Iterator[Lag]:
    """The lag of each projection behind the head, by the database's clock; position 0 if it was never folded."""
    with read_connection(engine) as connection:
        rows: Sequence[Any] = connection.exec_driver_sql(
            f"""SELECT b.*, greatest(0, date_part('epoch', clock_timestamp() - e.at)) AS seconds
            FROM ({_LIVE_BUILDS}) b LEFT JOIN LATERAL
            (SELECT at FROM events WHERE position > b.position ORDER BY position LIMIT 1) e ON true""",  # noqa: S608
            _names_and_versions(folds),
        ).all()
    for row in rows:
        behind, is_parked = max(0, row.head - row.position), row.parked_at is not None
        seconds = float(row.seconds or 0)
        yield Lag(row.projection, row.version, Position(row.position), behind, seconds, is_parked)
