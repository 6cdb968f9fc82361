"""Leases of sites across processes and machines, held in the shared database."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, TextClause, text
from sqlalchemy.exc import DBAPIError, OperationalError

from agents.envs.errors import LeaseLost, LeaseTaken
from agents.envs.leases import PATIENCE_S
from eventlog.database import first_line

_NUMBER = text("SELECT hashtextextended(current_schema() || '/lease/' || :key, 0)")
_TAKE = text("SELECT pg_advisory_lock(:number)")
_GIVE_BACK = text("SELECT pg_advisory_unlock(:number)")
_HOLDER = text(
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND ((classid::bigint << 32) | objid::bigint) = :number"
)
_IS_HELD = text(
    "SELECT count(*) > 0 FROM pg_locks"
    " WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pg_locks.pid = pg_backend_pid()"
    " AND ((classid::bigint << 32) | objid::bigint) = :number"
)
# If a machine loses power, keepalives end its session, and with it the lease, after about a minute.
_SETTINGS = text(
    "SELECT set_config('application_name', :name, false), set_config('lock_timeout', :wait, false),"
    " set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),"
    " set_config('tcp_keepalives_count', '3', false)"
)
_LOCK_NOT_AVAILABLE = "55P03"


@dataclass(frozen=True, slots=True)
class DatabaseLeases:
    """Leases as PostgreSQL session locks: the server releases one when its holder ends, `kill -9` included.

    Each lease keeps one connection of the engine. `holder` describes the holder to others.
    """

    engine: Engine
    holder: str
    patience_s: float = PATIENCE_S

    @contextmanager
    def __call__(self, key: str) -> Iterator[Callable[[], None]]:
        """Hold a key. Raises LeaseTaken, with its holder, and LeaseLost if the session ended in the meantime."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # Close the session instead of returning it to the pool, so that the lock is always released.
            connection.detach()
            number = connection.execute(_NUMBER, {"key": key}).scalar_one()
            self._take(connection, key, number)
            yield lambda: _ask(connection, _IS_HELD, key, number)
            _ask(connection, _GIVE_BACK, key, number)

    def _take(self, connection: Connection, key: str, number: int) -> None:
        wait = f"{max(1, round(self.patience_s * 1000))}ms"
        connection.execute(_SETTINGS, {"name": f"{self.holder} on {key}"[:63], "wait": wait})
        try:
            connection.execute(_TAKE, {"number": number})
        except OperationalError as problem:
            if getattr(problem.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            holder = connection.execute(_HOLDER, {"number": number}).scalars().first()
            told = "a session that this one may not see" if not holder else repr(holder)
            raise LeaseTaken(key=key, timeout_s=self.patience_s, actual=told) from problem


def _ask(connection: Connection, statement: TextClause, key: str, number: int) -> None:
    """Run a statement about a lock in its session. Raises LeaseLost if the session does not hold it."""
    ended = "the database session ended"
    if connection.invalidated:
        raise LeaseLost(key=key, actual=ended)
    try:
        held = connection.execute(statement, {"number": number}).scalar_one()
    except DBAPIError as problem:
        raise LeaseLost(key=key, actual=f"{ended} ({first_line(problem)})") from problem
    if not held:
        raise LeaseLost(key=key, actual="the session does not hold it")


def this_process() -> str:
    """Description of this process and machine as the holder of a lease."""
    return f"flywheel {os.getpid()}@{socket.gethostname()}"
