"""Differences of arms with intervals over training seeds and instances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.real.differences import two_way
from benchmarks.real.effort import Effort, quick
from benchmarks.real.questions import held_out_seeds, question, training_seeds_of
from benchmarks.real.stage import outcomes_of as outcomes_of_runs
from projections.rewards import RewardState
from projections.runs import RunState

OUTCOMES = st.integers(1, 4).flatmap(
    lambda many: st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=many, max_size=many), min_size=1, max_size=3)
)


def outcomes_of(values: list[list[float]]) -> list[dict[int, float]]:
    return [dict(enumerate(own)) for own in values]


def test_a_difference_that_every_seed_and_instance_has_needs_no_interval() -> None:
    before, after = outcomes_of([[0.0, 0.0]] * 3), outcomes_of([[1.0, 1.0]] * 3)
    found = two_way(before, after)
    assert (found.mean, found.low, found.high, found.by_seed) == (1.0, 1.0, 1.0, (1.0, 1.0, 1.0))


def test_training_seeds_that_disagree_widen_the_interval() -> None:
    before = outcomes_of([[0.0] * 20] * 2)
    agree = two_way(before, outcomes_of([[1.0] * 10 + [0.0] * 10] * 2))
    disagree = two_way(before, outcomes_of([[1.0] * 20, [0.0] * 20]))
    assert agree.mean == disagree.mean == 0.5
    assert disagree.high - disagree.low > agree.high - agree.low


@given(OUTCOMES)
def test_the_same_arm_twice_differs_by_nothing(values: list[list[float]]) -> None:
    found = two_way(outcomes_of(values), outcomes_of(values))
    assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)


def test_an_instance_without_an_outcome_in_one_arm_counts_in_none() -> None:
    found = two_way([{1: 0.0, 2: 0.0}, {1: 0.0}], [{1: 1.0, 3: 0.0}, {1: 1.0, 2: 0.0}])
    assert (found.mean, found.by_seed) == (1.0, (1.0, 1.0))
    with pytest.raises(ValueError, match="every arm"):
        two_way([{1: 0.0}], [{2: 0.0}])


def test_a_missing_run_is_no_failed_one_and_a_part_of_the_reward_may_pass() -> None:
    runs = {
        "a": RunState(run="a", env_seed=1),
        "b": RunState(run="b", env_seed=1, status="missing"),
        "c": RunState(run="c", env_seed=2),
        "d": RunState(run="d", env_seed=3, status="missing"),
    }
    rewards = {"a": RewardState(run="a", score=500_000, passed=True), "c": RewardState(run="c", score=600_000)}
    assert outcomes_of_runs(runs, rewards) == ({1: 1.0, 2: 0.0}, 2)


def test_no_instance_is_played_twice_in_training_and_no_held_out_question_is_asked_there() -> None:
    pytest.importorskip("reasoning_gym")
    for effort in (Effort(), quick()):
        parts = [
            (training_seeds_of(effort, training_seed, part), effort.questions if part else effort.asked)
            for training_seed in effort.training_seeds
            for part in range(effort.rounds + 1)
        ]
        asked = [seed for seeds, _ in parts for seed in seeds]
        assert [len(seeds) for seeds, _ in parts] == [wanted for _, wanted in parts]
        assert len(asked) == len(set(asked))
        assert max(asked) < 9_000 < min(held_out_seeds(effort))
        assert not {question(seed) for seed in asked} & {question(seed) for seed in held_out_seeds(effort)}
