"""What was seen in the instance so far: each walk is made once, and only so many are made."""

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
    """A run's inspector, to be looked at `left` more times; none where the site `failed` meanwhile."""

    inspector: Inspector
    left: int
    failed: bool = False
    _kept: dict[Plan, Inspection] = field(default_factory=dict)

    def after(self, steps: Plan) -> Inspection | None:
        """What is seen after these steps; None where no more looks are left. The last is the one that a site fails."""
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

    def controls_after(self, steps: Plan) -> tuple[Control, ...]:
        """The controls there; none where these steps cannot be taken, or no more looks are left."""
        seen = self.after(steps)
        return seen.controls if seen is not None and seen.outcome == "ok" else ()

    def everywhere(self) -> frozenset[str]:
        """The texts of the links on the first page: what stands on each page leads nowhere in particular."""
        return frozenset(each.label for each in self.controls_after((START,)) if each.kind == "link")


def label_words(text: str) -> frozenset[str]:
    """The words of a text that carry meaning."""
    return frozenset(_WORD.findall(text.lower())) - _FILLERS


def wanted_share(text: str, wanted: frozenset[str]) -> int:
    """How many of the wanted words a text has, in millionths."""
    return len(label_words(text) & wanted) * MICRO // max(1, len(wanted))


def rank_controls(found: Iterable[Control], wanted: frozenset[str]) -> list[Control]:
    """Controls by the wanted words that they share, most first, then by name; of one name the first alone."""
    unique: dict[str, Control] = {}
    for each in found:
        unique.setdefault(each.label, each)
    return sorted(unique.values(), key=lambda each: (-wanted_share(each.label, wanted), each.label))


def words_wanted(step: Step) -> frozenset[str]:
    """The words of what a step says that it wants."""
    return label_words(f"{step.intent} {step.label or ''} {step.url or ''}")
