"""Unused training seeds."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from projections.sweeps import SweepsState

from ..course import Course


def fresh_seeds(
    planned: SweepsState, course: Course, amount: int | None = None, held: Collection[int] = frozenset()
) -> tuple[int, ...]:
    """The next training seeds that no sweep has used and no benchmark holds (`held`).

    Returns `amount` seeds, by default the number per round; fewer if they run out.
    """
    unseen = (
        seed for seed in planned.unused_seeds(course.training_seeds) if seed >= course.first_seed and seed not in held
    )
    return tuple(islice(unseen, course.seeds_per_round if amount is None else amount))
