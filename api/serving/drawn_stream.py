"""The texts of a completion as a thread draws them, on their way to the event loop of its caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from agents.models.model import Completion


@dataclass
class DrawnStream:
    """A Watcher whose caller is in an event loop. `model` and `input_tokens` are known once it has begun.

    `shown` are the texts that were given out, by sample.
    """

    model: str | None = None
    input_tokens: int = 0
    shown: dict[int, str] = field(default_factory=dict)
    has_left: bool = False
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _come: asyncio.Queue[tuple[int, str] | None] = field(default_factory=asyncio.Queue)

    def begin(self, model: str, input_tokens: int) -> None:
        """See Watcher."""
        self.model, self.input_tokens = model, input_tokens
        self.tell(0, "")

    def tell(self, sample: int, text: str) -> bool:
        """See Watcher."""
        try:
            self._loop.call_soon_threadsafe(self._come.put_nowait, (sample, text))
        except RuntimeError:  # the loop was closed, and its callers with it
            return True
        return self.has_left

    def follow(self, drawing: asyncio.Future[Completion]) -> None:
        """Have `pieces` end when the completion is whole, or failed."""
        drawing.add_done_callback(self._end)

    def _end(self, drawing: asyncio.Future[Completion]) -> None:
        if not drawing.cancelled():
            drawing.exception()  # also where nobody asks for it any more
        self._come.put_nowait(None)

    async def begun(self) -> None:
        """Wait until the completion has begun, or failed."""
        first = await self._come.get()
        if first is None:
            self._come.put_nowait(None)

    async def pieces(self) -> AsyncIterator[tuple[int, str]]:
        """Pieces of the samples as they are drawn, each with its sample, until the completion is whole."""
        while (told := await self._come.get()) is not None:
            sample, text = told
            before = self.shown.get(sample, "")
            if len(text) > len(before) and text.startswith(before):
                self.shown[sample] = text
                yield sample, text[len(before) :]
