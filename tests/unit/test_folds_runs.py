from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.codec import decode_event
from eventlog.events import AnyEvent, RunStarted
from projections.engine.projection import replay
from projections.failures import FAILURE_CLASSES, FAILURES, clusters
from projections.groups import GROUPS, GroupState, assemble_groups, contaminated_starts
from projections.rewards import REWARDS
from projections.runs import RUNS
from tests.golden.test_golden_samples import SAMPLES, sample

from .test_folds_samples import changed, graded, only, started, states, told

ARM = {"evaluation": "e", "benchmark": "b", "arm": "challenger", "repeat": 1, "is_sealed": True}


def stepped(outcome: str = "ok", index: int = 0, run: str = "r1") -> Any:
    return sample("StepTaken", run=run, index=index, outcome=outcome, intent=f"step {index}")


def finished(status: str = "completed", run: str = "r1", **changes: Any) -> Any:
    return sample("RunFinished", run=run, status=status, **changes)


def reset(fingerprint: str, run: str = "r1", group: str = "g1") -> Any:
    return sample("InstanceReset", run=run, group=group, fingerprint=fingerprint * 64)


def missing(run: str = "r1", group: str = "g1") -> Any:
    return sample("RunMissing", run=run, group=group, reason="environment_down")


def group(*events: AnyEvent) -> GroupState:
    """The only group there is."""
    (state,) = assemble_groups(states(GROUPS, *events).values()).values()
    return state


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
    assert (found["r1"].since, found["r1"].others) == (3, ())


def test_the_newest_grade_is_in_force_whoever_gave_it_and_those_of_other_verifiers_stand_beside() -> None:
    said = [("one", True), ("two", False), ("one", False), ("three", True), ("two", True)]
    state = only(REWARDS, *(graded(passed=passed, version=version) for version, passed in said))
    assert (state.version, state.passed, state.since) == ("two", True, 5)
    assert [(grade.version, grade.passed, grade.since) for grade in state.others] == [
        ("one", False, 3),
        ("three", True, 4),
    ]


def test_a_reward_says_how_it_was_shaped_and_an_older_one_that_it_was_not() -> None:
    state = only(REWARDS, graded(shaping="shaped-1", shaped=-5))
    assert (state.shaping, state.shaped, state.process, state.progress) == ("shaped-1", -5, 950_000, 909_090)
    kept = json.loads((SAMPLES / "RewardGraded.v1.json").read_text("utf-8"))
    older = decode_event("RewardGraded", 1, json.dumps(kept["payload"]))
    state = only(REWARDS, older)
    assert (state.shaping, state.shaped, state.process, state.progress) == (None, None, None, None)


def test_a_reward_says_what_the_steps_earned_beside_the_score() -> None:
    given = graded()
    terms = [given.terms.model_copy(update={"steps": steps}) for steps in (200_000, 0, None)]
    earned = [given.model_copy(update={"terms": each}) for each in terms]
    assert [only(REWARDS, each).steps for each in earned] == [200_000, 0, None]
    assert {only(REWARDS, each).score for each in earned} == {1_000_000}


def test_a_group_keeps_its_siblings_in_order_of_index_whoever_comes_first() -> None:
    state = group(started("r2", index=2), started("r0", index=0), started("r1", index=1, spec__candidate="w"))
    assert [(s.run, s.index, s.candidate) for s in state.siblings] == [("r0", 0, None), ("r1", 1, "w"), ("r2", 2, None)]


def test_a_group_knows_what_each_sibling_earned_and_which_are_missing() -> None:
    state = group(
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


def test_a_sibling_is_one_row_that_is_replaced_as_its_run_goes_on() -> None:
    story = (started("r0", index=0), started("r1", index=1), reset("a", "r0"), graded("r0", passed=True), missing("r1"))
    assert len(replay(GROUPS, told(*story))) == 2


def test_what_the_starts_of_siblings_say_differently_the_latest_decides() -> None:
    state = group(started("r1", index=1, spec__sweep="earlier"), started("r0", index=0, spec__sweep="later"))
    assert (state.sweep, [sibling.run for sibling in state.siblings]) == ("later", ["r0", "r1"])


def test_groups_come_whole_and_in_order_of_their_names_whatever_these_hold() -> None:
    names = ["a", "a\x01", "a\x01\x01b", "a\x02", "a!", "a/b", "ab", "\x01", "ü"]
    runs = [(name, run) for name in names for run in (f"{name}__s0", f"run of {name}", f"{name}\x01")]
    events = [changed(started(run), "spec.group_id", name) for name, run in runs]
    events += [reset("a", run, name) for name, run in runs]
    found = assemble_groups(states(GROUPS, *events).values())
    assert list(found) == sorted(names, key=str.encode)
    for name, state in found.items():
        assert {each.run for each in state.siblings} == {run for of, run in runs if of == name}
        assert {each.fingerprint for each in state.siblings} == {"a" * 64}


@pytest.mark.parametrize(
    ("starts", "found"),
    [
        ("", ""),
        ("a", ""),
        ("aa", ""),
        ("ab", "01"),
        ("aab", "2"),
        ("abb", "0"),
        ("abc", "012"),
        ("aabb", "0123"),
        ("aabc", "23"),
        ("a-", ""),
        ("a-b", "02"),
        ("a-ba", "2"),
        ("--", ""),
    ],
)
def test_siblings_that_began_from_another_state_than_most_are_contaminated(starts: str, found: str) -> None:
    events = [started(f"r{n}", index=n) for n in range(max(1, len(starts)))]
    events += [reset(start, f"r{n}") for n, start in enumerate(starts) if start != "-"]
    assert group(*events).contaminated_siblings == {f"r{n}" for n in found}


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), st.sampled_from(["a", "b", "c", None])))
def test_who_is_contaminated_is_decided_by_the_most_common_start_alone(starts: dict[str, str | None]) -> None:
    found = contaminated_starts(starts)
    clean = {start for run, start in starts.items() if run not in found and start is not None}
    assert len(clean) <= 1
    assert all(starts[run] is not None for run in found)
    assert found == contaminated_starts(dict(reversed(starts.items())))
    without = contaminated_starts({run: start for run, start in starts.items() if run not in found})
    assert without == frozenset()
    counts = Counter(start for start in starts.values() if start is not None)
    for start in clean:
        assert all(counts[start] > count for other, count in counts.items() if other != start)


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


def test_a_step_that_went_well_after_one_that_did_not_clears_it_because_a_policy_goes_on() -> None:
    state = only(FAILURES, started(), stepped("no_such_link", 0), stepped("ok", 1), graded(passed=False))
    assert (state.failure_class, state.step_index, state.step_intent) == ("wrong_outcome", None, None)


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
    events += [started("r6"), stepped("not_found", run="r6"), graded("r6", passed=False)]
    found = clusters(states(FAILURES, *events).values(), frozenset({"r6"}))
    assert [(c.failure_class, c.step_intent, c.runs) for c in found] == [
        ("bad_url", "step 0", ("r1", "r3")),
        ("refused_input", "step 0", ("r2",)),
        ("wrong_outcome", "", ("r4",)),
    ]
