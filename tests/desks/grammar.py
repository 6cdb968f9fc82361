"""Grammar of the small sites: what can stand in a plan's way, where, and which sites a seed draws.

An obstacle stands at one place of the plan: the address of the list, the list, the form, its sending, and what comes
after. Two of one place stand behind one another, so that a cure has to take several steps at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Obstacle = Literal[
    "moved address",
    "filter needed first",
    "paged list",
    "tabbed form",
    "gate page",
    "renamed control",
    "missing prerequisite",
    "extra confirmation",
    "sworn confirmation",
    "sold out",
]
Combination = tuple[Obstacle, ...]

TRIED: Final[tuple[Combination, ...]] = (
    ("moved address",),
    ("filter needed first",),
    ("paged list",),
    ("tabbed form",),
    ("gate page",),
    ("renamed control",),
    ("missing prerequisite",),
    ("extra confirmation",),
    ("renamed control", "missing prerequisite"),
)
"""What recovery was tried on."""

HELD_OUT: Final[tuple[Combination, ...]] = (
    ("filter needed first", "paged list"),
    ("tabbed form", "gate page"),
    ("sworn confirmation",),
)
"""Combinations that nothing was changed for."""

APART: Final[tuple[Combination, ...]] = (("moved address", "renamed control"), ("gate page", "extra confirmation"))
"""Obstacles at two places of the plan: a piece of memory has one place, so that nothing cures them together."""

CONTROL: Final[Combination] = ("sold out",)
"""Nothing can cure this."""


@dataclass(frozen=True, slots=True)
class Words:
    """What one kind of site calls its things; each site has its own."""

    site: str
    things: str
    address: str
    kinds: tuple[str, ...]
    branches: tuple[str, ...]
    branch: str
    who: str
    send: str
    renamed: str
    tabs: tuple[str, str, str]
    gate: tuple[str, str]
    prerequisite: str
    confirm: tuple[str, str]
    further: str
    moved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeskKind:
    """A site: its words, and what stands in the way there."""

    words: Words
    obstacles: Combination

    @property
    def task(self) -> str:
        """Id of the site's only task."""
        return f"{self.words.site}.request"


def draw_desk(seed: int, words: Sequence[Words], combinations: Sequence[Combination]) -> DeskKind:
    """The site of a seed."""
    rng = random.Random(f"desk {seed}")  # noqa: S311 (a seed's data)
    return DeskKind(rng.choice(list(words)), rng.choice(list(combinations)))
