"""The same client for coroutines: each request runs on a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, Self, TypeVar

from .client import Client, Memory, connect
from .recording import ActiveRun, current_run
from .records import Champion, Event, Piece, Run

P = ParamSpec("P")
T = TypeVar("T")


def connect_async(url: str, token: str, *, timeout: float = 30.0) -> AsyncClient:
    """A client for coroutines of the server at a URL."""
    return AsyncClient(connect(url, token, timeout=timeout))


class AsyncRun:
    """A run of a coroutine; see ActiveRun."""

    def __init__(self, active: ActiveRun) -> None:
        self.active = active
        self.run = active.run

    async def step(self, intent: str, **parts: Any) -> None:
        """See ActiveRun.step."""
        await asyncio.to_thread(self.active.step, intent, **parts)

    def reward(self, score: float, *, passed: bool | None = None) -> None:
        """See ActiveRun.reward."""
        self.active.reward(score, passed=passed)


class AsyncClient:
    """See Client. `sync` is the client that does the work; what is not here is asked of it on a thread."""

    def __init__(self, sync: Client) -> None:
        self.sync = sync

    async def __aenter__(self) -> Self:
        """The client itself."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the connections."""
        await asyncio.to_thread(self.sync.close)

    @asynccontextmanager
    async def run(self, task: str, **named: Any) -> AsyncIterator[AsyncRun]:
        """A run of your own agent; see Client.run."""
        active = self.sync.run(task, **named)
        await asyncio.to_thread(active.begin)
        entered = current_run.set(active)
        try:
            yield AsyncRun(active)
        except BaseException:
            await asyncio.to_thread(active.finish, "halted")
            raise
        finally:
            current_run.reset(entered)
        await asyncio.to_thread(active.finish)

    def trace(self, function: Callable[P, T], /) -> Callable[P, T]:
        """See Client.trace."""
        return self.sync.trace(function)

    async def reward(self, run: str, score: float, *, passed: bool | None = None) -> None:
        """See Client.reward."""
        await asyncio.to_thread(self.sync.reward, run, score, passed=passed)

    async def runs(self, count: int | None = None, **wanted: Any) -> list[Run]:
        """The first runs of a filter (None: all); see Client.runs."""
        return await asyncio.to_thread(_first, self.sync.runs(**wanted), count)

    async def run_events(self, run: str) -> list[Event]:
        """See Client.run_events."""
        return await asyncio.to_thread(self.sync.run_events, run)

    async def memory(self, kind: Memory = "rewrites", count: int | None = None) -> list[Piece]:
        """The first pieces of a kind (None: all); see Client.memory."""
        return await asyncio.to_thread(_first, self.sync.memory(kind), count)

    async def champion(self, *, as_of: int | str | None = None) -> Champion | None:
        """See Client.champion."""
        return await asyncio.to_thread(self.sync.champion, as_of=as_of)


def _first(listing: Any, count: int | None) -> Any:
    return list(listing) if count is None else listing.first(count)
