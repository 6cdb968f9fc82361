"""One Chromium per process. Its driver runs in an event loop on a dedicated thread; any thread may use it.

Visits are isolated from each other: each has its own context, and shares no cookies, storage or cache.
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
    """Starts children in a new session, so that Ctrl-C does not kill the browser while runs are ending."""

    async def subprocess_exec(self, *program: Any, **options: Any) -> Any:
        return await super().subprocess_exec(*program, start_new_session=True, **options)


class Chromium:
    """A headless Chromium, started when the context is entered. Raises BrowserMissing, BrowserNotStarted.

    `program` is the installed executable; nothing is downloaded. `extra_headers` are sent with every request, as
    preview proxies need them. A browser that died is restarted for the next visit.
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
        """Visit the instance at this address in a new context, which restores the profile if one is given.

        `headers` are sent with every request to the instance.
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
        """Run a coroutine in the browser's event loop, and wait for its result."""
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
