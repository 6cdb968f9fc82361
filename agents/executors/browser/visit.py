"""A visit in Chromium: executes steps as a person would, by label, at a place in the window, or by a key.

It is used in the browser's event loop; surface.py wraps it for any thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from playwright.async_api import Browser, BrowserContext, Error, Request, Response, Route
from playwright.async_api import Page as Window
from playwright.async_api import TimeoutError as TooSlow

from eventlog.events import Step

from ...envs.clients.compact import compact_view
from ...envs.clients.names import CHECKED, ChoiceControl
from ...envs.clients.pages import Absent
from ...envs.clients.session import address_of, is_inside, leads_out
from ...envs.clients.wire import UNAVAILABLE
from ...envs.errors import EnvironmentDown
from ..executor import outcome_of
from ..surface import Acted, missing_target
from .snapshot import PageSnapshot, read_window

WIDTH: Final = 1280
HEIGHT: Final = 720
SCROLLED: Final = {"down": HEIGHT * 3 // 4, "up": -HEIGHT * 3 // 4}
# A proxy where nothing listens: every request beyond the instance's origin fails there.
_NOWHERE: Final = "http://127.0.0.1:1"
_LEADING: Final = frozenset({"navigate", "click", "submit", "click_at"})
_ONE_WINDOW: Final = "window.open = (address) => { if (address) location.assign(address); return window; };"
_SAME_WINDOW: Final = "document.querySelectorAll('[target=_blank]').forEach((e) => e.removeAttribute('target'))"
_UNCHECKED: Final = "(button) => { if (button.form) button.form.noValidate = true; }"
_TRIES: Final = 3


async def open_visit(
    browser: Browser, root: str, profile: bytes | None, *, timeout_s: float, headers: Mapping[str, str]
) -> Visit:
    """Open a visit with the same window on every machine, and no network beyond the instance's origin."""
    kept = {} if profile is None else json.loads(profile)
    context = await browser.new_context(
        accept_downloads=False,
        color_scheme="light",
        device_scale_factor=1,
        extra_http_headers=dict(headers),
        locale="en-US",
        proxy={"server": _NOWHERE, "bypass": urlsplit(root).netloc},
        reduced_motion="reduce",
        service_workers="block",
        storage_state=kept.get("state"),
        timezone_id="UTC",
        viewport={"width": WIDTH, "height": HEIGHT},
    )
    context.set_default_timeout(timeout_s * 1000)
    await context.add_init_script(_ONE_WINDOW)
    visit = Visit(context, await context.new_page(), root, timeout_s, kept.get("at"))
    await visit.guard()
    return visit


class Visit:
    """One context with one window, inside one instance. Raises Playwright's errors and those of a surface."""

    def __init__(self, context: BrowserContext, window: Window, root: str, timeout_s: float, begin: str | None) -> None:
        self.root = root
        self.timeout_s = timeout_s
        self._context = context
        self._window = window
        self._begin = begin
        self._is_open = False
        self._asked: Request | None = None
        self._left: tuple[str, str] | None = None
        self._answer: Response | None = None

    async def guard(self) -> None:
        """Track requests from now on, and block those that leave the instance."""
        self._context.on("request", self._note)
        self._context.on("page", lambda window: window.close())
        await self._context.route(re.compile("^(?!" + re.escape(self.root) + ")"), self._stop)

    async def act(self, step: Step) -> Acted:
        """See Surface."""
        try:
            if step.type == "navigate":
                return await self._navigate(step, address_of(self.root, step.url or "/"))
            if step.type in {"act", "finish"}:
                return Acted("ok" if step.type == "finish" else "no_such_action")
            return await self._act(step) if await self._is_somewhere() else Acted(missing_target(step))
        except Absent as absent:
            return Acted(absent.problem)

    async def text(self) -> str | None:
        """See Surface."""
        return (await self._read()).page.text() if await self._is_somewhere() else None

    async def view(self) -> str | None:
        """See Surface."""
        return compact_view((await self._read()).page) if await self._is_somewhere() else None

    async def screenshot(self) -> bytes | None:
        """See Surface."""
        if not await self._is_somewhere():
            return None
        return await self._window.screenshot(animations="disabled", caret="hide", scale="css", type="png")

    async def profile(self) -> bytes:
        """Cookies, local storage and the last address inside the instance, as JSON."""
        at = "/" + self._window.url.removeprefix(self.root) if self._window.url.startswith(self.root) else None
        kept = {"at": at or self._begin, "state": await self._context.storage_state()}
        return json.dumps(kept, sort_keys=True).encode()

    async def close(self) -> None:
        """Close the context and discard its state."""
        await self._context.close()

    def _note(self, request: Request) -> None:
        if not _is_top(request):
            return
        self._asked = request
        if not is_inside(self.root, httpx2.URL(request.url)):
            self._left = (request.method, request.url)

    async def _stop(self, route: Route, request: Request) -> None:
        """Block documents outside the instance, and other requests outside the instance's origin."""
        is_home = urlsplit(request.url)[:2] == urlsplit(self.root)[:2]
        if is_home and (not _is_top(request) or is_inside(self.root, httpx2.URL(request.url))):
            await route.continue_()
        else:
            await route.abort("blockedbyclient")

    async def _is_somewhere(self) -> bool:
        if not self._is_open and self._begin is not None:
            again = Step(type="navigate", intent="go on where the profile stopped", url=self._begin)
            await self._navigate(again, address_of(self.root, self._begin))
        return self._is_open

    async def _navigate(self, step: Step, address: str) -> Acted:
        self._is_open = True
        return await self._act_and_wait(step, lambda: self._window.goto(address))

    async def _act(self, step: Step) -> Acted:
        value = step.value or ""
        match step.type:
            case "click_at":
                return await self._clicked_at(step)
            case "press_key":
                focused = (await self._window.evaluate_handle("document.activeElement")).as_element()
                return await self._act_and_wait(step, lambda: focused.press(value) if focused else _do_nothing())
            case "scroll":
                await self._window.evaluate("(y) => window.scrollBy({top: y, behavior: 'instant'})", _pixels(step))
                return Acted("ok")
            case "select_option":
                seen = await self._read()
                choice, place = seen.page.option(step.label or "", value)
                element = await self._live(seen, choice.element if choice.kind == "list" else choice.parts[place], step)
                return await self._act_and_wait(step, lambda: _choose(element, choice, place))
            case "fill_field":
                seen = await self._read()
                element = await self._live(seen, seen.page.fillable(step.label or ""), step)
                return await self._act_and_wait(step, lambda: element.fill(value))
            case _:
                return await self._click(step)

    async def _click(self, step: Step) -> Acted:
        """Follow a link or press a button. The site validates forms, not the browser."""
        seen, label = await self._read(), step.label or ""
        is_link = step.type == "click"
        element = await self._live(seen, seen.page.anchor(label) if is_link else seen.page.button(label), step)
        await self._window.evaluate(_SAME_WINDOW)
        if not is_link:
            await element.evaluate(_UNCHECKED)
        acted = await self._act_and_wait(step, element.click)
        await self._window.mouse.move(-1, -1)  # so that nothing is rendered as hovered
        return acted

    async def _clicked_at(self, step: Step) -> Acted:
        place = _place(step)
        await self._window.evaluate(_SAME_WINDOW)
        found = await self._window.evaluate_handle("([x, y]) => document.elementFromPoint(x, y)", place)
        element = found.as_element()
        corner = None if element is None else await element.bounding_box()
        if element is None or corner is None:
            raise Absent("no_such_link", step.value or "")
        x, y = place[0] - corner["x"], place[1] - corner["y"]
        return await self._act_and_wait(step, lambda: element.click(position={"x": x, "y": y}, force=True))

    async def _live(self, seen: PageSnapshot, found: Any, step: Step) -> Any:
        element = await seen.element(found)
        if element is None:
            raise Absent(missing_target(step), step.label or "")
        return element

    async def _read(self) -> PageSnapshot:
        """Read the window, and retry if a script navigates meanwhile."""
        status = 0 if self._answer is None else self._answer.status
        for _ in range(_TRIES - 1):
            try:
                return await read_window(self._window, self.root, status, self._body)
            except Error:
                await self._window.wait_for_load_state("load")
        return await read_window(self._window, self.root, status, self._body)

    async def _body(self) -> bytes:
        return b"" if self._answer is None else await self._answer.body()

    async def _act_and_wait(self, step: Step, action: Callable[[], Awaitable[object]]) -> Acted:
        """Run an action and wait for the page it leads to, if any. Raises Absent if the action is impossible."""
        self._asked, problem = None, None
        try:
            await action()
            await self._window.wait_for_load_state("load")
        except Error as found:
            problem = found
        if self._left is not None:
            raise leads_out(self.root, *self._left)
        if problem is not None and (not self._was_asked() or isinstance(problem, TooSlow)):
            if step.type != "navigate" and not self._was_asked() and not self._window.is_closed():
                await self._window.evaluate("0")  # a hanging page never answers, which no agent causes
                raise Absent(missing_target(step), step.label or "") from problem
            raise problem
        if self._asked is None:
            return Acted("ok", led=step.type in _LEADING)
        return await self._result_of(self._asked)

    def _was_asked(self) -> bool:
        return self._asked is not None

    async def _result_of(self, asked: Request) -> Acted:
        answer = await asked.response()
        if answer is None or answer.status in UNAVAILABLE:
            actual = (asked.failure or "no answer") if answer is None else f"status {answer.status}"
            raise EnvironmentDown(url=self.root, operation=asked.method, actual=actual, timeout_s=self.timeout_s)
        self._answer = answer
        return Acted(outcome_of(answer.status), answer.status, led=True)


async def _do_nothing() -> None:
    return None


async def _choose(element: Any, choice: ChoiceControl, place: int) -> None:
    """Set an option of a list, a box, or a radio button."""
    if choice.kind == "list":
        await element.select_option(index=place)
    else:
        await element.set_checked(choice.kind == "radios" or choice.options[place] == CHECKED)


def _is_top(request: Request) -> bool:
    """True if a request is for the main document of a window, not for a subresource or a frame."""
    if not request.is_navigation_request():
        return False
    try:
        return request.frame.parent_frame is None
    except Error:  # a window that is still opening has no frame yet
        return True


def _place(step: Step) -> tuple[int, int]:
    """Parse `x,y` into a place in the window. Raises Absent."""
    found = re.fullmatch(r"\s*(\d{1,5})\s*,\s*(\d{1,5})\s*", step.value or "")
    if found is None:
        raise Absent("no_such_link", step.value or "")
    return int(found[1]), int(found[2])


def _pixels(step: Step) -> int:
    """Pixels to scroll, positive for down. `up` and `down` scroll three quarters of a window. Raises Absent."""
    wanted = (step.value or "down").strip()
    if wanted in SCROLLED:
        return SCROLLED[wanted]
    if re.fullmatch(r"[+-]?\d{1,5}", wanted) is None:
        raise Absent("no_such_field", wanted)
    return int(wanted)
