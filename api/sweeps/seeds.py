"""Unused training seeds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from eventlog.events import SweepPlanned

from ..course import Course


def fresh_seeds(
    sweeps: Sequence[SweepPlanned], course: Course, amount: int | None = None, held: Collection[int] = frozenset()
) -> tuple[int, ...]:
    """The next training seeds that no sweep has used and no benchmark holds (`held`).

    Returns `amount` seeds, by default the number per round; fewer if they run out.
    """
    seen = {spec.env_seed for sweep in sweeps for spec in sweep.specs}.union(held)
    unseen = (seed for seed in range(course.training_seeds) if seed not in seen)
    return tuple(islice(unseen, course.seeds_per_round if amount is None else amount))
