from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from eventlog.events import Rules
from gate.arms import Arm, Place, arm, pairs
from gate.errors import ForeignRun, ScoreOutOfRange, TwoResults
from projections.rewards import RewardState
from projections.runs import RunState
from tests.unit.test_gate_samples import EVALUATION, an_arm, artifact, benchmark, played

FROZEN = benchmark(sealed=2, repeats=2, visible=1)
PLACES: list[Place] = [("t1", seed, repeat) for seed in (0, 1, 1000) for repeat in (0, 1)]
RUN = "champion-t1-0-0"


def gathered(runs: dict[str, RunState], rewards: dict[str, RewardState]) -> Arm:
    return arm(FROZEN, EVALUATION, "champion", artifact(), runs, rewards, Rules())


def whole() -> tuple[dict[str, RunState], dict[str, RewardState]]:
    return played(FROZEN, "champion", artifact(), dict.fromkeys(PLACES, 1_000_000), cost=7)


def test_sealed_and_visible_results_are_kept_apart() -> None:
    found = gathered(*whole())
    assert sorted(found.sealed) == PLACES[:4]
    assert sorted(found.visible) == PLACES[4:]
    assert found.missing == frozenset()
    assert (found.benchmark, found.artifact, found.evaluation) == (FROZEN.digest, artifact(), EVALUATION)
    result = found.sealed["t1", 0, 0]
    assert (result.score, result.passed, result.cost) == (1_000_000, True, 7)


def test_a_run_of_another_evaluation_or_arm_or_of_none_is_no_result() -> None:
    runs, rewards = whole()
    runs[RUN] = replace(runs[RUN], evaluation="other")
    runs["champion-t1-0-1"] = replace(runs["champion-t1-0-1"], arm="challenger")
    runs["champion-t1-1-0"] = replace(runs["champion-t1-1-0"], evaluation=None, arm=None)
    assert gathered(runs, rewards).missing == frozenset(PLACES[:3])


@pytest.mark.parametrize("status", ["started", "missing"])
def test_a_run_that_did_not_end_or_is_missing_is_missing_even_with_a_reward(status: str) -> None:
    runs, rewards = whole()
    runs[RUN] = replace(runs[RUN], status=status)
    assert gathered(runs, rewards).missing == {("t1", 0, 0)}


def test_a_run_that_never_was_and_one_without_a_reward_are_missing() -> None:
    runs, rewards = whole()
    del runs[RUN], rewards["champion-t1-0-1"]
    found = gathered(runs, rewards)
    assert found.missing == {("t1", 0, 0), ("t1", 0, 1)}
    assert sorted(found.sealed) == PLACES[2:4]


@pytest.mark.parametrize("status", ["halted", "out_of_budget"])
def test_a_graded_run_that_gave_up_is_a_score(status: str) -> None:
    runs, rewards = whole()
    runs[RUN] = replace(runs[RUN], status=status)
    rewards[RUN] = replace(rewards[RUN], score=0, passed=False, cost=None)
    result = gathered(runs, rewards).sealed["t1", 0, 0]
    assert (result.score, result.passed, result.cost) == (0, False, None)


def test_two_results_for_one_place_are_refused() -> None:
    runs, rewards = whole()
    runs["again"], rewards["again"] = replace(runs[RUN], run="again"), rewards[RUN]
    with pytest.raises(TwoResults, match="the runs again, champion-t1-0-0"):
        gathered(runs, rewards)


def test_a_place_played_again_after_a_missing_run_has_one_result() -> None:
    runs, rewards = whole()
    runs["again"], rewards["again"] = replace(runs[RUN], run="again"), rewards.pop(RUN)
    runs[RUN] = replace(runs[RUN], status="missing")
    assert gathered(runs, rewards).missing == frozenset()


@pytest.mark.parametrize("score", [-1, 1_000_001])
def test_a_score_out_of_range_is_refused(score: int) -> None:
    runs, rewards = whole()
    rewards[RUN] = replace(rewards[RUN], score=score)
    with pytest.raises(ScoreOutOfRange, match=str(score)):
        gathered(runs, rewards)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"environment": "site"}, "environment"),
        ({"template": "t9"}, "place"),
        ({"env_seed": 77}, "place"),
        ({"repeat": 14}, "place"),
        ({"repeat": None}, "place"),
        ({"is_sealed": False}, "sealed flag"),
        ({"artifact": "base@5"}, "artifact"),
        ({"memory": "a" * 64}, "memory"),
        ({"memory": ""}, "memory"),
        ({"benchmark": "shop-2"}, "benchmark"),
        ({"benchmark": None}, "benchmark"),
        ({"candidate": "rw1"}, "candidate"),
    ],
)
def test_a_run_that_does_not_belong_is_refused(change: dict[str, Any], what: str) -> None:
    runs, rewards = whole()
    runs[RUN] = replace(runs[RUN], **change)
    with pytest.raises(ForeignRun, match=f"its {what} is"):
        gathered(runs, rewards)


def test_a_repeat_that_is_missing_in_one_arm_drops_out_of_both() -> None:
    frozen = benchmark(sealed=3, repeats=2)
    champion = an_arm(frozen, "champion", [1, 2, 3, 4, None, 6])
    challenger = an_arm(frozen, "challenger", [10, None, 30, 40, 50, None])
    compared = pairs(champion, challenger, frozen, frozen.tasks)
    assert [(pair.env_seed, pair.deltas) for pair in compared.instances] == [(0, (9,)), (1, (27, 36))]
    assert (compared.planned, compared.missing) == (6, 3)


def test_a_pair_whose_runs_began_from_different_states_is_missing_in_both_arms() -> None:
    frozen = benchmark(sealed=3)
    places: list[Place] = [("t1", seed, 0) for seed in range(3)]
    runs, rewards = played(frozen, "champion", artifact(), dict.fromkeys(places, 0))
    others, more = played(frozen, "challenger", artifact(9), dict.fromkeys(places, 1_000_000))
    runs, rewards = runs | others, rewards | more
    runs = {key: replace(run, fingerprint=f"start of {run.env_seed}") for key, run in runs.items()}
    runs["challenger-t1-1-0"] = replace(runs["challenger-t1-1-0"], fingerprint="start of 7")
    champion = arm(frozen, EVALUATION, "champion", artifact(), runs, rewards, Rules())
    challenger = arm(frozen, EVALUATION, "challenger", artifact(9), runs, rewards, Rules())
    assert champion.missing == challenger.missing == {("t1", 1, 0)}
    compared = pairs(champion, challenger, frozen, frozen.tasks)
    assert ([pair.env_seed for pair in compared.instances], compared.missing) == ([0, 2], 1)


def test_of_several_repeats_only_the_one_that_began_elsewhere_drops_out() -> None:
    frozen = benchmark(sealed=1, repeats=2)
    places: list[Place] = [("t1", 0, repeat) for repeat in range(2)]
    runs, rewards = played(frozen, "champion", artifact(), dict.fromkeys(places, 0))
    others, more = played(frozen, "challenger", artifact(9), dict.fromkeys(places, 1_000_000))
    runs, rewards = {key: replace(run, fingerprint="a") for key, run in (runs | others).items()}, rewards | more
    runs["champion-t1-0-1"] = replace(runs["champion-t1-0-1"], fingerprint="b")
    elsewhere = replace(runs["champion-t1-0-1"], run="x", evaluation="other", fingerprint="b")
    champion = arm(
        frozen, EVALUATION, "champion", artifact(), {**runs, "x": elsewhere, "y": elsewhere}, rewards, Rules()
    )
    assert champion.missing == {("t1", 0, 1)}
    challenger = arm(frozen, EVALUATION, "challenger", artifact(9), runs, rewards, Rules())
    assert (challenger.missing, pairs(champion, challenger, frozen, frozen.tasks).missing) == (frozenset(), 1)


def test_confirming_repeats_are_kept_apart_and_are_missed_by_nobody() -> None:
    fresh: list[Place] = [("t1", 0, 2), ("t1", 0, 13)]
    runs, rewards = played(FROZEN, "champion", artifact(), dict.fromkeys([*PLACES, *fresh], 1_000_000))
    found = gathered(runs, rewards)
    assert (sorted(found.confirming), sorted(found.sealed)) == (fresh, PLACES[:4])
    assert found.missing == frozenset()


def test_only_sealed_instances_are_confirmed_and_the_bootstrap_confirms_none() -> None:
    visible: Place = ("t1", 1000, 2)
    runs, rewards = played(FROZEN, "champion", artifact(), {visible: 0})
    with pytest.raises(ForeignRun, match="its place is"):
        gathered(runs, rewards)
    runs, rewards = played(FROZEN, "champion", artifact(), {("t1", 0, 2): 0})
    with pytest.raises(ForeignRun, match="its place is"):
        arm(FROZEN, EVALUATION, "champion", artifact(), runs, rewards, Rules.seeds())


def test_contaminated_runs_are_named_where_they_are_sealed() -> None:
    runs, rewards = whole()
    starts = {"champion-t1-1-0": "b", "champion-t1-1000-0": "b"}
    runs = {key: replace(run, fingerprint=starts.get(key, "a")) for key, run in runs.items()}
    others, _ = played(FROZEN, "challenger", artifact(9), dict.fromkeys(PLACES, 0))
    runs |= {key: replace(run, fingerprint="a") for key, run in others.items()}
    found = gathered(runs, rewards)
    assert found.contaminated == ("champion-t1-1-0",)
    assert found.missing == {("t1", 1, 0), ("t1", 1000, 0)}


def test_who_lacks_what_is_counted() -> None:
    frozen = benchmark(sealed=4, repeats=1)
    champion = an_arm(frozen, "champion", [1, None, None, 4])
    compared = pairs(champion, an_arm(frozen, "challenger", [None, 2, None, 4]), frozen, frozen.tasks)
    assert (compared.champion_missing, compared.challenger_missing, compared.missing) == (1, 1, 3)
