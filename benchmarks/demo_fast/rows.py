"""The rows of the table: which kinds of memory each of them learns, and what is played in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agents.learning.allocator import KINDS
from eventlog.events import PieceKind

FROZEN: Final = "frozen"
ALLOCATOR: Final = "allocator"
ALL: Final = "all"
FIRST_SEALED: Final = 10_000
"""From this seed on a site draws its addresses from a pool that training seeds never see."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """One row: the kinds that it learns (none: it stays as it is), and whether the allocator chooses among them."""

    name: str
    kinds: frozenset[PieceKind]
    is_allocated: bool = False

    @property
    def project(self) -> str:
        """A project of its own: what one row learns no other row knows."""
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
    """How much is played. Seeds below 10,000 draw from the addresses that learning sees, the others from sealed ones.

    Learning: `rounds` of one sweep over `found_seeds` of all tasks with two siblings, in which candidates are found,
    and of trials, so many groups for each candidate of a task, `most_groups` at most. Evaluation: `repetitions` of
    fresh seeds.
    """

    found_seeds: int = 6
    rounds: int = 2
    groups_a_candidate: int = 14
    most_groups: int = 70
    repetitions: int = 5
    visible: int = 3
    sealed: int = 5

    def visible_seeds(self, repetition: int) -> range:
        """Seeds of one repetition, that no learning sweep and no benchmark has."""
        first = 9_100 + repetition * self.visible
        return range(first, first + self.visible)

    def sealed_seeds(self, repetition: int) -> range:
        """The same for sealed addresses."""
        first = 10_100 + repetition * self.sealed
        return range(first, first + self.sealed)


QUICK: Final = Sizes(found_seeds=3, rounds=1, groups_a_candidate=13, most_groups=52, repetitions=1)
