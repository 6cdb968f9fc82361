"""How a small model plays a page of MiniWoB++: it is shown what is visible, and answers with the words to click."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from agents.envs.contract import Instance
from agents.envs.episodes.episode import ActionSpec
from agents.envs.miniwob import scripts
from agents.envs.miniwob.tabs import Tab, Tabs
from agents.executors.miniwob.executor import MiniWobSurface
from agents.executors.policy import Opening
from agents.executors.surface import Acted
from eventlog.events import Step

CLICK: Final = ActionSpec("click", "the words on what is clicked next, as the page shows them")
_PLACE: Final = re.compile(r"^-?\d+,-?\d+ \d+x\d+ ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ClickSurface:
    """An OpenSurface on the page of one instance: its only action is a click on something with given words.

    The page is shown from the first answer on, without places in pixels, of which a small model makes nothing.
    """

    page: MiniWobSurface
    tab: Tab

    @property
    def actions(self) -> tuple[ActionSpec, ...]:
        """See OpenSurface."""
        return (CLICK,)

    def act(self, step: Step) -> Acted:
        """See Surface. Quotes around the words are not part of them. The last click is the one that ends the page."""
        if step.type != "act" or step.label != CLICK.name:
            return Acted("no_such_action")
        words = (step.value or "").strip('"')
        acted = self.page.act(Step(type="click", intent=step.intent, label=words))
        return Acted(acted.outcome, led=acted.led, is_last=self.tab.read(scripts.RESULT)["done"])

    def text(self) -> str:
        """See Surface."""
        return _PLACE.sub("", self.page.text())

    def view(self) -> str:
        """See Surface. The same as `text`."""
        return self.text()

    def screenshot(self) -> bytes:
        """See Surface."""
        return self.page.screenshot()


def clicks_on(tabs: Tabs) -> Opening:
    """An Opening of such surfaces. It ignores page headers, because nothing is requested."""

    @contextmanager
    def open_surface(instance: Instance, _page_headers: Mapping[str, str]) -> Iterator[ClickSurface]:
        tab = tabs.tab(instance.instance)
        yield ClickSurface(MiniWobSurface(tab), tab)

    return open_surface
