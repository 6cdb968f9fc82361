"""Grammar of the small sites: what can stand in a plan's way, where, and which sites a seed draws.

An obstacle stands at one place of the plan: the address of the list, the list, the form, its sending, and what comes
after. Two of one place stand behind one another, so that a cure has to take several steps at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations as subsets
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
    "sold out by chance",
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

CHANCE: Final[Combination] = ("sold out by chance",)
"""Nothing can cure this either: it is there in every second instance, drawn by the seed and the noise index."""

PLACES: Final[tuple[Combination, ...]] = (
    ("moved address",),
    ("filter needed first", "paged list"),
    ("tabbed form", "gate page"),
    ("renamed control", "missing prerequisite"),
    ("extra confirmation",),
    ("sworn confirmation",),
)
"""Obstacles by the step of the plan that they make fail. Of the two confirmations a site has one."""

ONE_PLACE: Final[tuple[Combination, ...]] = tuple(
    chosen for place in PLACES for size in range(1, len(place) + 1) for chosen in subsets(place, size)
)
"""Every combination at one place. One piece of memory belongs to one step, so it can cure each of these."""


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
    """A site: its words, what stands in the way there, and behind which page of a list and which tab the way goes on.

    Pages and tabs count from 0. With `one_each` an instance has one of the obstacles, which its seed says. What chance
    decides is another draw for each `luck`.
    """

    words: Words
    obstacles: Combination
    page: int = 1
    tab: int = 2
    one_each: bool = False
    luck: int = 0

    @property
    def tabs(self) -> tuple[str, ...]:
        """Captions of the tabs; the last one that the words name leads to the form."""
        *others, form = self.words.tabs
        return (*others[: self.tab], form, *others[self.tab :])

    @property
    def task(self) -> str:
        """Id of the site's only task."""
        return f"{self.words.site}.request"


def draw_desk(seed: int, words: Sequence[Words], combinations: Sequence[Combination]) -> DeskKind:
    """The site of a seed."""
    rng = random.Random(f"desk {seed}")  # noqa: S311 (a seed's data)
    return DeskKind(rng.choice(list(words)), rng.choice(list(combinations)))


def mix_words(seed: int, words: Sequence[Words]) -> Words:
    """Words that no site has together: what a thing, a form and each obstacle is called comes from drawn sites."""
    rng = random.Random(f"words {seed}")  # noqa: S311 (a seed's data)
    things, lists, forms, tabs, gates, boxes = (rng.choice(list(words)) for _ in range(6))
    return replace(
        things,
        kinds=tuple(rng.sample(things.kinds, len(things.kinds))),
        branches=lists.branches,
        branch=rng.choice(lists.branches[1:]),
        who=forms.who,
        send=forms.send,
        renamed=forms.renamed,
        confirm=forms.confirm,
        tabs=tabs.tabs,
        gate=gates.gate,
        prerequisite=boxes.prerequisite,
    )
