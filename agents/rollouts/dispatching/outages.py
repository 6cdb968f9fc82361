"""The queue's connections outlive an outage of the database: what was asked is asked again once it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any, LiteralString, TypeVar

import psycopg
from procrastinate import PsycopgConnector
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException

from eventlog.database import first_line, is_connection_lost, reconnect_pauses

_CLOSING_S = 1.0
_OPENING_S = 10.0
_SHORTEST_WAIT_S = 0.25

T = TypeVar("T")
Told = Callable[[str | None], None]
"""Called with the error when the database stops answering, and with None when it is back."""


class PatientConnector(PsycopgConnector):
    """A connector whose queries wait for a lost database, up to `outage_s` seconds or until `is_over` returns True.

    `reconnects` counts how often it has connected again. The answer to a query that was sent again may be the second
    one, so a caller that needs exactly one effect must check. `pool` are the arguments of the pool.
    """

    def __init__(self, outage_s: float, is_over: Callable[[], bool], tell: Told, **pool: Any) -> None:
        super().__init__(**pool)
        self.reconnects = 0
        self._outage_s = outage_s
        self._away_s = 0.0
        self._since: float | None = None
        self._is_over = is_over
        self._tell = tell
        self._alone = asyncio.Lock()

    def seconds_away(self) -> float:
        """Seconds for which the database did not answer, in all outages so far and in the present one."""
        return self._away_s + (0.0 if self._since is None else monotonic() - self._since)

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        """See PsycopgConnector."""
        await self._repeat(partial(super().execute_query_async, query, **arguments))

    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        """See PsycopgConnector."""
        return await self._repeat(partial(super().execute_query_one_async, query, **arguments))

    async def execute_query_all_async(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        """See PsycopgConnector."""
        return await self._repeat(partial(super().execute_query_all_async, query, **arguments))

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """See PsycopgConnector."""
        await self._repeat(partial(super().listen_notify, on_notification, channels))

    async def _repeat(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            pool = self._async_pool
            try:
                return await ask()
            except ConnectorException as error:
                if pool is None or not is_connection_lost(error):
                    raise
                await self._reconnect(pool)

    async def _reconnect(self, lost: Any) -> None:
        """Replace a pool that lost its connections. The first caller does it, the others wait for it.

        The pool itself would try again after ever longer pauses, of minutes in the end.
        """
        old = lost  # mypy takes the type of the other side of a comparison for its own
        async with self._alone:
            if self._async_pool is not lost:
                return
            if self._since is None:
                self._since = monotonic()
            self._async_pool = await self._open_again(self._since + self._outage_s)
            self._away_s, self._since = self.seconds_away(), None
            self.reconnects += 1
            with suppress(psycopg.Error):  # its connections are lost anyway
                await old.close(timeout=_CLOSING_S)

    async def _open_again(self, end: float) -> Any:
        """A pool with connections. Raises ConnectorException if the outage lasts too long, or is over by request."""
        pauses, is_told = reconnect_pauses(), False
        while True:
            try:
                found = await self._open_pool()
                break
            except (psycopg.OperationalError, ConnectorException) as error:
                if self._is_over() or monotonic() > end or not is_connection_lost(error):
                    raise ConnectorException from error
                if not is_told:
                    self._tell(first_line(error))
                is_told = True
                await asyncio.sleep(next(pauses))
        if is_told:
            self._tell(None)
        return found

    async def _open_pool(self) -> Any:
        async with await psycopg.AsyncConnection.connect(self._pool_args["conninfo"]):
            pass  # the pool would not say why it has no connection
        pool = await self._create_pool(self._pool_args)
        try:
            await pool.open(wait=True, timeout=_OPENING_S)
        except BaseException:
            await pool.close(timeout=_CLOSING_S)
            raise
        return pool


async def ends_within(future: asyncio.Future[T], limit_s: float, away: Callable[[], float]) -> bool:
    """True if the future ends within this many seconds. Those in which the database was away do not count."""
    end = monotonic() - away() + limit_s
    while (left := end - (monotonic() - away())) > 0:
        done, _ = await asyncio.wait({future}, timeout=max(left, _SHORTEST_WAIT_S))
        if done:
            return True
    return False


@contextmanager
def suppress_lost_connection() -> Iterator[None]:
    """Suppress an error that says that the connection to the database was lost. The next call waits for it."""
    try:
        yield
    except Exception as error:
        if not is_connection_lost(error):
            raise
