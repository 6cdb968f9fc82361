"""The demonstration's paired differences: the unit is an instance averaged over training seeds."""

from __future__ import annotations

import pytest

from benchmarks.slow.paired import paired

BEFORE = {("a", 1): 0.0, ("a", 2): 1.0, ("b", 1): 0.0, ("b", 2): 0.0}


def test_a_difference_is_averaged_over_training_seeds_and_each_is_told() -> None:
    better = dict.fromkeys(BEFORE, 1.0)
    found = paired(BEFORE, [better, BEFORE])
    assert found.by_seed == (0.75, 0.0)
    assert found.mean == pytest.approx(0.375)
    assert found.low <= found.mean <= found.high
    assert paired(BEFORE, [better, BEFORE]) == found


def test_what_is_the_same_everywhere_has_no_width_and_a_control_is_paired_seed_by_seed() -> None:
    better = {instance: value + 0.5 for instance, value in BEFORE.items()}
    found = paired([BEFORE, better], [better, better])
    assert (found.mean, found.by_seed) == (0.25, (0.5, 0.0))
    assert found.low == found.high == 0.25
