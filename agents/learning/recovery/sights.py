"""Cache of inspections of an instance, with a limit on their number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from eventlog.events import Step

from ...envs.clients.controls import Control
from ...envs.errors import EnvironmentFailure
from ...plans import Plan
from ..inspection import Inspection, Inspector

START_PAGE: Final = "/"
START: Final = Step(type="navigate", intent="open the first page", url=START_PAGE)
MICRO: Final = 1_000_000
_WORD: Final = re.compile(r"[a-z0-9]+")
_FILLERS: Final = frozenset(
    ["a", "an", "and", "at", "for", "in", "of", "on", "open", "page", "the", "to", "with", "your"]
)


@dataclass(slots=True)
class Sights:
    """A run's inspector and its results so far. `left` inspections remain, 0 after the site `failed`."""

    inspector: Inspector
    left: int
    failed: bool = False
    _kept: dict[Plan, Inspection] = field(default_factory=dict)

    def after(self, steps: Plan) -> Inspection | None:
        """Inspection after these steps; None if no inspection is left. After a failure of the site none is left."""
        if steps not in self._kept:
            if self.left == 0:
                return None
            self.left -= 1
            try:
                self._kept[steps] = self.inspector.after(steps)
            except EnvironmentFailure:
                self.left, self.failed = 0, True
                return None
        return self._kept[steps]

    def known_after(self, steps: Plan) -> Inspection | None:
        """Inspection after these steps if there was one."""
        return self._kept.get(steps)

    def controls_after(self, steps: Plan) -> tuple[Control, ...]:
        """Controls of the page after these steps; empty if a step fails or no inspection is left."""
        seen = self.after(steps)
        return seen.controls if seen is not None and seen.outcome == "ok" else ()

    def everywhere(self) -> frozenset[str]:
        """Labels of the links on the first page; on later pages they are ignored as site-wide navigation."""
        return frozenset(each.label for each in self.controls_after((START,)) if each.kind == "link")


def label_words(text: str) -> frozenset[str]:
    """Words of a text without filler words."""
    return frozenset(_WORD.findall(text.lower())) - _FILLERS


def wanted_share(text: str, wanted: frozenset[str]) -> int:
    """Share of the wanted words that a text contains, in millionths."""
    return len(label_words(text) & wanted) * MICRO // max(1, len(wanted))


def rank_controls(found: Iterable[Control], wanted: frozenset[str]) -> list[Control]:
    """Controls sorted by share of wanted words, highest first, then by label; only the first of each label."""
    unique: dict[str, Control] = {}
    for each in found:
        unique.setdefault(each.label, each)
    return sorted(unique.values(), key=lambda each: (-wanted_share(each.label, wanted), each.label))


def words_wanted(step: Step) -> frozenset[str]:
    """Words of a step's intent, label and address."""
    return label_words(f"{step.intent} {step.label or ''} {step.url or ''}")
