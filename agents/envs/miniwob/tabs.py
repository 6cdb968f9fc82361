"""One headless Chromium in its own thread, with one tab in its own browser context for each open instance.

Playwright is bound to its thread. All its calls run in one event loop there; callers from other threads submit a
coroutine and block for its result, so that many runs play in parallel. Nothing is retried.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ..browsers import usable
from ..errors import EnvironmentDown, InstanceClosed
from ..unclosed_instances import count_unclosed
from . import scripts
from .served import PREFIX, pages_folder, serve_pages

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, Playwright, Route

T = TypeVar("T")
WIDTH: Final = 160
HEIGHT: Final = 210
TIMEOUT_S: Final = 60.0
FLAGS: Final = ("--disable-dev-shm-usage", "--disable-gpu")


@dataclass(frozen=True, slots=True)
class Tab:
    """Page of one instance. Its mouse, keyboard and screenshots are for agents; `read` is not.

    Every method raises EnvironmentDown if the page or its browser is gone.
    """

    instance: str
    url: str
    task: str
    seed: int
    page: Page
    call: Callable[[str, Callable[[], Awaitable[Any]]], Any]

    def read(self, script: str) -> Any:
        """Result of one of our own scripts on the page."""
        return self.call("a reading", lambda: self.page.evaluate(script))

    def click_at(self, x: int, y: int) -> None:
        """Move the mouse to a point and click."""
        self.call("a click", lambda: self.page.mouse.click(x, y))

    def press_key(self, key: str) -> None:
        """Press a key: `Enter`, `Tab`, `Control+A`."""
        self.call("a key", lambda: self.page.keyboard.press(key))

    def type_text(self, text: str) -> None:
        """Type into the focused element, character by character."""
        self.call("typing", lambda: self.page.keyboard.type(text))

    def scroll(self, pixels: int) -> None:
        """Turn the mouse wheel; positive is down."""
        self.call("scrolling", lambda: self.page.mouse.wheel(0, pixels))

    def screenshot(self) -> bytes:
        """Screenshot of the window as PNG."""
        picture: bytes = self.call("a screenshot", lambda: self.page.screenshot(caret="hide"))
        return picture


class Tabs:
    """All open tabs; threads may share it. A dead Chromium is restarted with the next instance."""

    def __init__(self, portal: BlockingPortal, executable: str) -> None:
        self.origin = "http://127.0.0.1/"
        self._portal = portal
        self._executable = executable
        self._served: set[str] = set()
        self._tabs: dict[str, Tab] = {}
        self._driver: Playwright | None = None
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()

    def open(self, instance: str, task: str, seed: int) -> Tab:
        """Open a task's page (such as `click-button`) for an instance, seed it and start it. Raises EnvironmentDown."""
        with count_unclosed(instance):
            self.close(instance)
        self._served.add(instance)
        url = f"{self.origin}/{PREFIX}/{instance}/miniwob/{task}.html"
        try:
            opened = self.call("reset", lambda: self._open_tab(url, seed))
        except EnvironmentDown:
            self._served.discard(instance)
            raise
        self._tabs[instance] = tab = Tab(instance, url, task, seed, opened, self.call)
        return tab

    def tab(self, instance: str) -> Tab:
        """The tab of an open instance. Raises InstanceClosed."""
        if instance not in self._tabs:
            raise InstanceClosed(url=self.origin, actual=instance)
        return self._tabs[instance]

    def serves(self, instance: str) -> bool:
        """True if an instance is open."""
        return instance in self._served

    def close(self, instance: str) -> None:
        """Close an instance's tab, if it has one. Raises EnvironmentDown if a living Chromium keeps it."""
        self._served.discard(instance)
        tab = self._tabs.pop(instance, None)
        if tab is not None:
            try:
                self.call("close", tab.page.context.close)
            except EnvironmentDown:
                if self._browser is not None and self._browser.is_connected():
                    raise

    def call(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine in the browser's thread. Raises EnvironmentDown if it fails or times out."""
        from playwright.async_api import Error  # noqa: PLC0415 (heavy)

        waiting = self._portal.start_task_soon(ask)
        try:
            return waiting.result(TIMEOUT_S)
        except (Error, TimeoutError) as problem:
            waiting.cancel()
            said = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise EnvironmentDown(url=self.origin, operation=operation, actual=said, timeout_s=TIMEOUT_S) from problem

    def stop(self) -> None:
        """Close the browser and with it every instance."""
        self._served.clear()
        self._tabs.clear()
        self._portal.call(self._stop)

    async def _open_tab(self, url: str, seed: int) -> Page:
        browser = await self._chromium()
        context = await browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT},
            locale="en-US",
            timezone_id="UTC",
            reduced_motion="reduce",
            accept_downloads=False,
            service_workers="block",
        )
        async with AsyncExitStack() as unless_begun:
            unless_begun.push_async_callback(context.close)
            page = await _begin(context, url, seed)
            unless_begun.pop_all()
        return page

    async def _chromium(self) -> Browser:
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                await self._stop()
                from playwright.async_api import async_playwright  # noqa: PLC0415 (heavy)

                self._driver = await async_playwright().start()
                self._browser = await self._driver.chromium.launch(
                    executable_path=self._executable,
                    args=[*FLAGS, *_only(self.origin)],
                    chromium_sandbox=os.geteuid() != 0,
                )
            return self._browser

    async def _stop(self) -> None:
        from playwright.async_api import Error  # noqa: PLC0415 (heavy)

        browser, driver = self._browser, self._driver
        self._browser = self._driver = None
        with suppress(Error):
            if browser is not None:
                await browser.close()
        if driver is not None:
            await driver.stop()


def _only(origin: str) -> tuple[str, ...]:
    """Chromium flags that allow only the pages' own server: all other requests go to a closed proxy port."""
    return "--proxy-server=127.0.0.1:9", f"--proxy-bypass-list=<-loopback>;{urlsplit(origin).netloc}"


async def _begin(context: BrowserContext, url: str, seed: int) -> Page:
    await context.add_init_script(scripts.LISTEN)
    page = await context.new_page()
    page.set_default_timeout(TIMEOUT_S * 1000)
    await page.goto(url)
    # Zero-padded, because the pages' generator treats a seed and its repetitions (1, 11, 111) as equal.
    await page.evaluate(scripts.START, f"{seed:016}")
    await context.route("**/*", _stay)
    context.on("page", lambda opened: opened.close())
    return page


async def _stay(route: Route) -> None:
    """Keep a started task on its page: a navigation answered with 204 leaves the browser where it is."""
    if route.request.is_navigation_request():
        await route.fulfill(status=HTTPStatus.NO_CONTENT)
    else:
        await route.fallback()


@contextmanager
def open_tabs(chromium: Path | None, pages: Path | None = None) -> Iterator[Tabs]:
    """Serve the pages and run a Chromium for them; both end with the context. Raises PagesMissing, BrowserMissing."""
    folder = pages_folder() if pages is None else pages
    found = str(usable(chromium))
    with start_blocking_portal("asyncio", name="miniwob") as portal:
        tabs = portal.call(Tabs, portal, found)
        with serve_pages(folder, tabs.serves) as origin:
            tabs.origin = origin
            try:
                yield tabs
            finally:
                tabs.stop()
