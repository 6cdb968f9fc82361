"""The queue's connections outlive an outage of the database: what was asked is asked again once it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, LiteralString, TypeVar

import psycopg
from procrastinate import PsycopgConnector
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException

from eventlog.database import first_line, is_connection_lost, reconnect_pauses

_CLOSING_S = 1.0

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
        self._is_over = is_over
        self._tell = tell
        self._alone = asyncio.Lock()

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
        old = lost
        async with self._alone:
            if self._async_pool is not lost:
                return
            await self._await_database()
            fresh = await self._create_pool(self._pool_args)
            await fresh.open(wait=True)
            self._async_pool = fresh
            self.reconnects += 1
            await old.close(timeout=_CLOSING_S)

    async def _await_database(self) -> None:
        """Raises ConnectorException if the outage lasts too long, or is over by request."""
        end, pauses, is_told = monotonic() + self._outage_s, reconnect_pauses(), False
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._pool_args["conninfo"]):
                    break
            except psycopg.OperationalError as error:
                if self._is_over() or monotonic() > end:
                    raise ConnectorException from error
                if not is_told:
                    self._tell(first_line(error))
                is_told = True
                await asyncio.sleep(next(pauses))
        if is_told:
            self._tell(None)
