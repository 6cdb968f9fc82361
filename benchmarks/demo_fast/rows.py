"""Rows of the table: the kinds of memory each row learns, and the sizes of learning and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agents.learning.allocator import KINDS
from eventlog.events import PieceKind

FROZEN: Final = "frozen"
ALLOCATOR: Final = "allocator"
ALL: Final = "all"
FIRST_SEALED: Final = 10_000
"""First seed at which a site draws its addresses from a pool that training seeds never use."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """One row: the memory kinds it learns (none: it is frozen), and whether the allocator chooses among them."""

    name: str
    kinds: frozenset[PieceKind]
    is_allocated: bool = False

    @property
    def project(self) -> str:
        """Project of this row; rows do not share memory."""
        return self.name.replace(" ", "_")


SINGLES: Final = tuple(
    RowPlan(f"{name} only", frozenset({KINDS[name]})) for name in ("hints", "exemplars", "rewrites", "curriculum")
)
ROWS: Final = (
    RowPlan(FROZEN, frozenset()),
    *SINGLES,
    RowPlan(ALLOCATOR, frozenset(KINDS.values()), is_allocated=True),
    RowPlan(ALL, frozenset(KINDS.values())),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of runs. Seeds below 10,000 use the addresses of the training seeds, other seeds use sealed addresses.

    Learning has `rounds`. Each round plays one sweep over `found_seeds` of all tasks with two siblings, which proposes
    candidates, then trials with a number of groups per candidate of a task, at most `most_groups`. Evaluation plays
    `repetitions` of new seeds.
    """

    found_seeds: int = 6
    rounds: int = 2
    groups_a_candidate: int = 14
    most_groups: int = 70
    repetitions: int = 5
    visible: int = 3
    sealed: int = 5

    def visible_seeds(self, repetition: int) -> range:
        """Visible seeds of one repetition, which no learning sweep and no benchmark uses."""
        first = 9_100 + repetition * self.visible
        return range(first, first + self.visible)

    def sealed_seeds(self, repetition: int) -> range:
        """Seeds of one repetition with sealed addresses."""
        first = 10_100 + repetition * self.sealed
        return range(first, first + self.sealed)


QUICK: Final = Sizes(found_seeds=3, rounds=1, groups_a_candidate=13, most_groups=52, repetitions=1)
