"""The texts of a completion as a thread draws them, on their way to the event loop of its caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from agents.models.drawn_texts import DrawnText
from agents.models.model import Completion

from .errors import UpstreamLost


@dataclass
class DrawnStream:
    """A Watcher whose caller is in an event loop. `model` and `input_tokens` are known from the first token on.

    `shown` are the texts that were given out, by sample. Of each sample only the latest text is kept.
    """

    model: str | None = None
    input_tokens: int = 0
    shown: dict[int, str] = field(default_factory=dict)
    has_left: bool = False
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _come: asyncio.Event = field(default_factory=asyncio.Event)
    _latest: dict[int, str] = field(default_factory=dict)
    _is_over: bool = False

    def __call__(self, drawn: DrawnText) -> bool:
        """See Watcher."""
        try:
            self._loop.call_soon_threadsafe(self._hear, drawn)
        except RuntimeError:  # the loop was closed, and its callers with it
            return True
        return self.has_left

    def _hear(self, drawn: DrawnText) -> None:
        self.model, self.input_tokens = drawn.model, drawn.input_tokens
        self._latest[drawn.sample] = drawn.text
        self._come.set()

    def follow(self, drawing: asyncio.Future[Completion]) -> None:
        """Have `pieces` end when the completion is whole, or failed."""
        drawing.add_done_callback(self._end)

    def _end(self, drawing: asyncio.Future[Completion]) -> None:
        if not drawing.cancelled():
            drawing.exception()  # also where nobody asks for it any more
        self._is_over = True
        self._come.set()

    async def wait_for_begin(self) -> None:
        """Wait until a token was drawn, or the completion is whole, or failed."""
        await self._come.wait()

    async def pieces(self) -> AsyncIterator[tuple[int, str]]:
        """Pieces of the samples as they are drawn, each with its sample, until the completion is whole."""
        is_over = False
        while not is_over:
            await self._come.wait()
            self._come.clear()
            is_over = self._is_over
            for sample, text in sorted(self._latest.items()):
                before = self.shown.get(sample, "")
                if len(text) > len(before) and text.startswith(before):
                    self.shown[sample] = text
                    yield sample, text[len(before) :]

    def rest(self, sample: int, whole: str) -> str:
        """What was not shown of a sample. Raises UpstreamLost if the whole text is another than what was shown."""
        before = self.shown.get(sample, "")
        if not whole.startswith(before):
            raise UpstreamLost(url="of this process", actual="a text that changed while it was drawn")
        return whole[len(before) :]
