"""One Chromium for a process. Its driver lives in one event loop on a thread of its own; any thread may use it.

Visits are isolated from each other: each has a context, so that neither cookies nor storage nor cache are shared.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from ...envs.browsers import usable
from ...envs.clients.session import root_address
from .errors import BrowserNotStarted

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

    from .surface import BrowserSurface

T = TypeVar("T")
FLAGS: Final = ("--disable-dev-shm-usage", "--disable-gpu", "--font-render-hinting=none")
TIMEOUT_S: Final = 10.0


class _Loop(asyncio.SelectorEventLoop):
    """Its children have a session of their own: Ctrl-C lets runs end, and the browser must not die under them."""

    async def subprocess_exec(self, *program: Any, **options: Any) -> Any:
        return await super().subprocess_exec(*program, start_new_session=True, **options)


class Chromium:
    """A headless Chromium. Entering it starts it and raises BrowserMissing or BrowserNotStarted.

    `program` is the installed one; nothing is ever downloaded. `extra_headers` go on every request (preview proxies
    want them). A browser that died is started again for the next visit.
    """

    def __init__(
        self, program: Path | None, *, timeout_s: float = TIMEOUT_S, extra_headers: Mapping[str, str] | None = None
    ) -> None:
        self._program = program
        self._timeout_s = timeout_s
        self._headers = dict(extra_headers or {})
        self._loop = _Loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chromium", daemon=True)
        self._driver: Playwright | None = None
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()

    def __enter__(self) -> Self:
        self._thread.start()
        with ExitStack() as unless_started:
            unless_started.callback(self._end)
            self.call(self._start())
            unless_started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @contextmanager
    def visit(
        self, root: str, profile: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[BrowserSurface]:
        """A visit to the instance with this address, in a context of its own; it goes on from a profile if given.

        `headers` go on every request to the instance.
        """
        sent = {**self._headers, **(headers or {})}
        from .surface import BrowserSurface  # noqa: PLC0415 (playwright is an extra)
        from .visit import open_visit  # noqa: PLC0415

        async def start_visit() -> BrowserSurface:
            browser = await self._start()
            visit = await open_visit(browser, root_address(root), profile, timeout_s=self._timeout_s, headers=sent)
            return BrowserSurface(visit, self.call)

        surface = self.call(start_visit())
        try:
            yield surface
        finally:
            surface.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in the browser's loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> Browser:
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                self._browser = await self._launch(usable(self._program))
            return self._browser

    async def _launch(self, program: Path) -> Browser:
        from playwright.async_api import Error, async_playwright  # noqa: PLC0415 (an extra)

        if self._driver is None:
            self._driver = await async_playwright().start()
        try:
            return await self._driver.chromium.launch(
                executable_path=program, args=FLAGS, chromium_sandbox=os.geteuid() != 0
            )
        except Error as problem:
            raise BrowserNotStarted(path=str(program), actual=problem.message.partition("\n")[0]) from problem

    def _end(self) -> None:
        try:
            self.call(self._close_window())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _close_window(self) -> None:
        if self._browser is not None and self._browser.is_connected():
            await self._browser.close()
        if self._driver is not None:
            await self._driver.stop()
