"""A visit in Chromium as a surface: any thread may use it, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from playwright.async_api import Error

from eventlog.events import Step

from ...envs.errors import EnvironmentDown
from ..surface import Acted
from .visit import Visit

T = TypeVar("T")
# Opening, acting and settling may each take the full timeout of a site.
_PATIENCE: Final = 3


class BrowserSurface:
    """See Surface. Made by `Chromium.visit`, which also closes it."""

    def __init__(self, visit: Visit, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._visit = visit
        self._call = call

    def act(self, step: Step) -> Acted:
        """See Surface."""
        return self._ask(step.type, self._visit.act(step))

    def text(self) -> str | None:
        """See Surface."""
        return self._ask("reading", self._visit.text())

    def view(self) -> str | None:
        """See Surface."""
        return self._ask("reading", self._visit.view())

    def screenshot(self) -> bytes | None:
        """See Surface."""
        return self._ask("drawing", self._visit.screenshot())

    def profile(self) -> bytes:
        """Browser state that the session's next visit restores. Raises EnvironmentDown."""
        return self._ask("its profile", self._visit.profile())

    def close(self) -> None:
        """Close the visit."""
        self._call(self._visit.close())

    def _ask(self, operation: str, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the browser. A hanging page and a dead window raise EnvironmentDown."""
        visit = self._visit
        try:
            found: T = self._call(_within(_PATIENCE * visit.timeout_s, work))
        except (Error, TimeoutError) as problem:
            actual = str(problem).partition("\n")[0] or "the page hangs"
            raise EnvironmentDown(
                url=visit.root, operation=operation, actual=actual, timeout_s=visit.timeout_s
            ) from problem
        return found


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wait_for(work, seconds)
