"""Seeds of the demonstration of weights and memory: what is learned on is never judged on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agents.suites.bundled import bundled_for
from benchmarks.four_arms.effort import SITE, Effort, quick


@pytest.mark.parametrize("effort", [Effort(), quick()])
def test_no_part_learns_on_a_seed_of_another_or_on_a_sealed_one(effort: Effort) -> None:
    parts = [
        *(effort.plan_seeds(number) for number in range(effort.plan_rounds)),
        effort.plain_seeds,
        effort.told_seeds,
        *(effort.trial_seeds(number) for number in range(1 + effort.rounds)),
        effort.sealed_seeds,
    ]
    assert all(one.stop <= other.start for one, other in pairwise(parts))
    suite = bundled_for(SITE)
    assert suite is not None
    training, sealed = suite.seeds.training, suite.seeds.sealed
    assert training.first <= parts[0].start
    assert parts[-2].stop - 1 <= training.last
    assert sealed.first <= parts[-1].start
    assert parts[-1].stop - 1 <= sealed.last
