"""One call of a blocking function for the items of many requests that wait at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from anyio import CancelScope, to_thread

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """Has `work` answer for many items at once, in a thread. Items that come meanwhile go together next.

    A burst of requests then takes few threads and statements instead of one each. An exception that `work` gives for an
    item is raised for its caller alone. For one event loop.
    """

    def __init__(self, work: Callable[[Sequence[T]], Sequence[R | Exception]]) -> None:
        self._work = work
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._running: asyncio.Task[None] | None = None

    async def answer(self, item: T) -> R:
        """What `work`, begun after this call, answers for an item. Raises what `work` raises.

        A caller that is cancelled in an AnyIO scope waits for it all the same, as for a thread.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        with CancelScope(shield=True):
            await future
        return future.result()

    async def _run(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._settle(batch)
        finally:
            self._running = None
            for _, future in (*batch, *self._waiting):  # none is left unless the loop is being closed
                future.cancel()
            self._waiting.clear()

    async def _settle(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        working = to_thread.run_sync(self._work, [item for item, _ in batch])
        (answered,) = await asyncio.gather(working, return_exceptions=True)
        found = [answered] * len(batch) if isinstance(answered, BaseException) else answered
        for (_, future), each in zip(batch, found, strict=True):
            if future.done():
                continue  # its caller has left
            if isinstance(each, BaseException):
                future.set_exception(each)
            else:
                future.set_result(each)
