from __future__ import annotations

from typing import Any

import pytest

from eventlog.events import AnyEvent, RunStarted
from projections.failures import FAILURE_CLASSES, FAILURES, clusters
from projections.groups import GROUPS
from projections.rewards import REWARDS
from projections.runs import RUNS
from tests.golden.test_golden_samples import sample

from .test_folds_samples import changed, graded, only, started, states

ARM = {"evaluation": "e", "benchmark": "b", "arm": "challenger", "repeat": 1, "is_sealed": True}


def stepped(outcome: str = "ok", index: int = 0, run: str = "r1") -> AnyEvent:
    return sample("StepTaken", run=run, index=index, outcome=outcome, intent=f"step {index}")


def finished(status: str = "completed", run: str = "r1", **changes: Any) -> AnyEvent:
    return sample("RunFinished", run=run, status=status, **changes)


def reset(fingerprint: str, run: str = "r1", group: str = "g1") -> AnyEvent:
    return sample("InstanceReset", run=run, group=group, fingerprint=fingerprint * 64)


def missing(run: str = "r1", group: str = "g1") -> AnyEvent:
    return sample("RunMissing", run=run, group=group, reason="environment_down")


def test_a_run_is_what_it_was_started_as() -> None:
    event = changed(started(), "arm", ARM)
    assert isinstance(event, RunStarted)
    state = only(RUNS, event)
    assert (state.run, state.group, state.template) == ("r1", "g1", event.spec.template)
    assert (state.artifact, state.memory) == (str(event.artifact), event.artifact.memory.digest)
    assert (state.evaluation, state.arm, state.repeat, state.is_sealed) == ("e", "challenger", 1, True)
    assert (state.status, state.is_ended) == ("started", False)


def test_a_run_outside_an_evaluation_has_no_arm() -> None:
    state = only(RUNS, started())
    assert (state.evaluation, state.benchmark, state.arm, state.repeat, state.is_sealed) == (None,) * 5


@pytest.mark.parametrize("status", ["completed", "halted", "out_of_budget"])
def test_a_finished_run_counts_its_steps_and_says_how_it_ended(status: str) -> None:
    state = only(RUNS, started(), reset("a"), stepped(), stepped(index=1), finished(status, mutations=3))
    assert (state.status, state.is_ended, state.steps, state.mutations) == (status, True, 2, 3)
    assert state.fingerprint == "a" * 64


def test_usage_that_is_unknown_stays_unknown() -> None:
    usage = {"actions": None, "wall_microseconds": None, "input_tokens": None, "output_tokens": None}
    state = only(RUNS, started(), finished(usage=usage))
    assert (state.actions, state.wall_microseconds) == (None, None)


def test_a_run_may_go_missing_before_it_began() -> None:
    state = only(RUNS, missing())
    assert (state.run, state.status, state.missing_reason, state.is_ended) == (
        "r1",
        "missing",
        "environment_down",
        True,
    )


def test_the_last_grade_of_a_run_counts_and_an_ungraded_run_has_none() -> None:
    found = states(REWARDS, started(run="r2"), graded(passed=False), graded(passed=True, cost=None, value=None))
    assert set(found) == {"r1"}
    assert (found["r1"].score, found["r1"].passed, found["r1"].cost, found["r1"].value) == (1_000_000, True, None, None)


def test_a_group_keeps_its_siblings_in_order_of_index_whoever_comes_first() -> None:
    state = only(GROUPS, started("r2", index=2), started("r0", index=0), started("r1", index=1, spec__candidate="w"))
    assert [(s.run, s.index, s.candidate) for s in state.siblings] == [("r0", 0, None), ("r1", 1, "w"), ("r2", 2, None)]


def test_a_group_knows_what_each_sibling_earned_and_which_are_missing() -> None:
    state = only(
        GROUPS,
        started("r0", index=0),
        started("r1", index=1),
        started("r2", index=2),
        graded("r0", passed=True, value=900_000),
        graded("r1", passed=False, cost=None, value=None),
        missing("r2"),
    )
    assert [(s.score, s.passed, s.value, s.missing) for s in state.siblings] == [
        (1_000_000, True, 900_000, False),
        (0, False, None, False),
        (None, None, None, True),
    ]


@pytest.mark.parametrize(("second", "is_contaminated"), [("a", False), ("b", True)])
def test_siblings_that_started_from_different_states_contaminate_their_group(
    second: str, is_contaminated: bool
) -> None:
    state = only(GROUPS, started("r0"), started("r1", index=1), reset("a", "r0"), reset(second, "r1"))
    assert state.is_contaminated == is_contaminated


def test_a_sibling_that_has_not_begun_contaminates_nothing() -> None:
    assert not only(GROUPS, started("r0"), started("r1", index=1), reset("a", "r0")).is_contaminated


@pytest.mark.parametrize(
    ("outcome", "failure_class"),
    [
        ("not_found", "bad_url"),
        ("forbidden", "page_error"),
        ("server_error", "page_error"),
        ("invalid_form", "refused_input"),
        ("no_such_link", "missing_control"),
        ("no_such_field", "missing_control"),
        ("no_such_option", "missing_control"),
        ("ok", "wrong_outcome"),
    ],
)
def test_a_failed_run_is_classed_by_the_step_that_went_wrong(outcome: str, failure_class: str) -> None:
    state = only(FAILURES, started(), stepped(), stepped(outcome, 1), finished("halted"), graded(passed=False))
    assert (state.failure_class, state.is_failure) == (failure_class, True)
    assert failure_class in FAILURE_CLASSES
    assert state.step_intent == (None if outcome == "ok" else "step 1")


def test_a_run_out_of_budget_is_classed_so_whatever_its_steps_said() -> None:
    state = only(FAILURES, started(), stepped("not_found"), finished("out_of_budget"), graded(passed=False))
    assert state.failure_class == "out_of_budget"


def test_the_last_step_that_went_wrong_names_the_failure() -> None:
    state = only(FAILURES, started(), stepped("not_found", 0), stepped("invalid_form", 1), graded(passed=False))
    assert (state.failure_class, state.step_index) == ("refused_input", 1)


def test_a_run_that_passed_or_was_never_graded_is_no_failure() -> None:
    assert not only(FAILURES, started(), stepped("not_found"), graded(passed=True)).is_failure
    assert not only(FAILURES, started(), stepped("not_found"), finished("halted")).is_failure
    assert only(FAILURES, started(), graded(passed=True)).failure_class is None


def test_runs_of_a_benchmark_are_marked() -> None:
    assert only(FAILURES, changed(started(), "arm", ARM)).is_benchmark
    assert not only(FAILURES, started()).is_benchmark


def test_failures_cluster_by_task_class_and_step_largest_first() -> None:
    events: list[AnyEvent] = []
    for run, outcome in (("r1", "not_found"), ("r2", "invalid_form"), ("r3", "not_found"), ("r4", "ok")):
        events += [started(run), stepped(outcome, run=run), graded(run, passed=False)]
    events += [started("r5"), stepped("not_found", run="r5"), graded("r5", passed=True)]
    found = clusters(states(FAILURES, *events).values())
    assert [(c.failure_class, c.step_intent, c.runs) for c in found] == [
        ("bad_url", "step 0", ("r1", "r3")),
        ("refused_input", "step 0", ("r2",)),
        ("wrong_outcome", "", ("r4",)),
    ]
