from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import AnyEvent
from projections import ALL
from projections.judges import JUDGES, Calibration, calibrations, judge_name
from projections.rewards import REWARDS
from tests.golden.test_golden_samples import sample

from .test_folds_runs import finished
from .test_folds_samples import graded, only, started, states

MICRO = 1_000_000
JUDGE = judge_name("m", "p1")


def opined(run: str = "r1", *, passed: bool = True, model: str = "m", prompt: str = "p1", score: int = 7) -> Any:
    return sample("JudgeOpined", run=run, model=model, prompt=prompt, passed=passed, score=score)


def rates(*events: AnyEvent) -> tuple[Calibration, ...]:
    """The calibrations of judges after these events."""
    passed = {run: reward.passed for run, reward in states(REWARDS, *events).items()}
    return calibrations(states(JUDGES, *events).values(), passed)


def test_a_run_that_no_judge_spoke_of_has_no_row() -> None:
    assert states(JUDGES, started(), finished(), graded()) == {}


def test_a_judge_is_a_model_with_a_version_of_its_prompt_and_its_newest_word_counts() -> None:
    state = only(JUDGES, opined(), opined(prompt="p2"), opined(model="n"), opined(passed=False, score=0))
    assert [(said.judge, said.passed) for said in state.opinions] == [("m/p1", False), ("m/p2", True), ("n/p1", True)]


def test_the_newest_grade_is_what_a_judge_is_compared_with() -> None:
    (found,) = rates(graded(passed=True), opined(), graded(passed=False))
    assert (found.oracle_passed, found.oracle_failed, found.false_passes) == (0, 1, 1)


def test_no_other_fold_hears_a_judge() -> None:
    before = (started(), finished(), graded())
    for fold in ALL:
        if fold is not JUDGES:
            assert states(fold, *before) == states(fold, *before, opined())
    assert [fold.name for fold in ALL if fold.reads.get("JudgeOpined")] == ["judges"]


def test_rates_are_shares_of_what_the_oracle_said() -> None:
    events = [
        *(graded(f"a{n}", passed=True) for n in range(4)),
        *(graded(f"b{n}", passed=False) for n in range(3)),
        *(opined(f"a{n}", passed=n > 0) for n in range(4)),
        *(opined(f"b{n}", passed=n < 2) for n in range(3)),
        opined("ungraded"),
    ]
    (found,) = rates(*events)
    assert found == Calibration(JUDGE, opinions=8, oracle_passed=4, oracle_failed=3, false_passes=2, false_fails=1)
    assert (found.compared_runs, found.accuracy) == (7, 4 * MICRO // 7)
    assert (found.false_pass_rate, found.false_fail_rate) == (2 * MICRO // 3, MICRO // 4)


def test_a_rate_of_nothing_is_unknown_and_never_zero() -> None:
    (found,) = rates(opined())
    assert (found.opinions, found.compared_runs) == (1, 0)
    assert (found.accuracy, found.false_pass_rate, found.false_fail_rate) == (None, None, None)
    assert rates(graded()) == ()


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_a_flipped_judge_is_right_exactly_where_the_other_is_wrong(said: list[tuple[bool, bool]]) -> None:
    events = []
    for number, (oracle, judge) in enumerate(said):
        run = f"r{number}"
        events += [graded(run, passed=oracle), opined(run, passed=judge), opined(run, passed=not judge, model="flip")]
    flipped, straight = rates(*events)
    assert (flipped.judge, straight.judge) == ("flip/p1", "m/p1")
    wrong = straight.false_passes + straight.false_fails
    assert flipped.false_passes + flipped.false_fails == len(said) - wrong
    assert straight.accuracy is not None
    assert flipped.accuracy is not None
    assert MICRO - 1 <= flipped.accuracy + straight.accuracy <= MICRO
