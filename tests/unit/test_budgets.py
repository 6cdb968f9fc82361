from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.learning.memory import build_memory_artifact
from api.controllers.budgets import (
    CourseBooks,
    Spent,
    budget_of,
    close_course,
    compute_spent,
    dollars_left,
    open_course,
    reopen_course,
    seeds_within,
    used_up,
)
from api.controllers.slow_next import SlowCourse
from api.course import Course
from api.queries.courses import describe_turn, last_course, pieces_retired_in_course, present_course
from eventlog.events import EventsDisowned, PairedRule, RewriteLost
from eventlog.memory import MemoryStore
from projections.courses import COURSES
from projections.engine.views import ReplayedViews
from projections.rewrites import REWRITES
from projections.runs import RUNS
from tests.golden.test_golden_samples import sample
from tests.unit.test_agent_samples import add, propose, spec, views
from tests.unit.test_fast_decide import SITE, a_log, open_one, plan, play, settle
from tests.unit.test_folds_samples import only, states

COURSE = Course(max_runs=100, max_micro_dollars=5_000, max_minutes=2)


def now() -> datetime:
    return datetime.now(UTC)


def used(store: MemoryStore, at: datetime | None = None) -> Spent:
    return compute_spent(store, views(store), SITE, at or now())


def opened(course: Course = COURSE) -> MemoryStore:
    store = a_log()
    open_course(store, views(store), SITE, course)
    return store


def test_before_a_course_nothing_is_spent() -> None:
    assert used(a_log()) == Spent()


def test_a_course_has_spent_the_rounds_runs_and_dollars_since_it_was_opened() -> None:
    store = a_log()
    before = plan(store, "s0")
    play(store, before.specs, True, False)
    open_course(store, views(store), SITE, COURSE)
    by_hand = plan(store, "s1", by="ann")
    play(store, by_hand.specs, True, True)
    sweep = plan(store, "s2", 3)
    play(store, sweep.specs[:2], True, None)
    found = used(store)
    assert (found.rounds, found.runs, found.verdicts) == (1, 2, 0)
    assert found.micro_dollars > 0


def test_who_was_interrupted_goes_on_with_the_same_course_and_what_it_has_spent() -> None:
    store = opened()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    head = store.head()
    open_course(store, views(store), SITE, COURSE)
    assert store.head() == head
    assert used(store).runs == 2
    open_course(store, views(store), SITE, replace(COURSE, max_runs=7))
    state = present_course(views(store), SITE)
    assert state is not None
    assert (state.course, state.runs, state.number, used(store).runs) == ("marketplace-course-1", 7, 1, 2)


def test_a_course_that_was_closed_is_followed_by_another_that_has_spent_nothing() -> None:
    store = opened()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    close_course(store, views(store), SITE, "done")
    assert present_course(views(store), SITE) is None
    head = store.head()
    close_course(store, views(store), SITE, "done")
    assert store.head() == head
    open_course(store, views(store), SITE, COURSE)
    state = present_course(views(store), SITE)
    assert state is not None
    assert (state.course, used(store).runs) == ("marketplace-course-2", 0)


class Watched(ReplayedViews):
    """Views that keep which runs they were asked for."""

    def find(self, fold: Any, prefix: str = "") -> dict[str, Any]:
        """See Views.find."""
        if fold is RUNS:
            ASKED.append(prefix)
        return super().find(fold, prefix)


ASKED: list[str] = []


def test_a_sweep_that_is_over_is_summed_once_and_an_open_one_at_each_decision() -> None:
    store, books = opened(), CourseBooks()
    first = plan(store, "s1")
    play(store, first.specs, True, False)
    add(store, "sweep/s1", sample("SweepEnded", sweep="s1", environment=SITE))
    second = plan(store, "s2", 3)
    for each in second.specs:
        play(store, [each], True)
        ASKED.clear()
        at = now()
        found = compute_spent(store, Watched(store, store.head()), SITE, at, books=books)
        assert found == compute_spent(store, views(store), SITE, at)
        assert ASKED.count("s1__") == (each == second.specs[0])
        assert ASKED.count("s2__") == 1
    add(store, "disownings", EventsDisowned(positions=(1,), reason="forged"))
    ASKED.clear()
    compute_spent(store, Watched(store, store.head()), SITE, now(), books=books)
    assert ASKED.count("s1__") == 1


def test_a_sweep_that_is_open_again_is_summed_again() -> None:
    store, books = opened(), CourseBooks()
    sweep = plan(store, "s1", 3)
    play(store, sweep.specs[:1], True)
    at = views(store)
    assert books.sum_runs(at, "s1", 0, is_over=True).runs == 1
    play(store, sweep.specs[1:], True, False)
    assert books.sum_runs(at, "s1", 0, is_over=True).runs == 1
    assert books.sum_runs(views(store), "s1", 0, is_over=False).runs == 3
    assert books.sum_runs(views(store), "s1", 0, is_over=True).runs == 3


def test_what_was_read_of_one_course_is_nothing_of_the_next() -> None:
    store, books = opened(), CourseBooks()
    play(store, plan(store, "s1").specs, True, False)
    assert compute_spent(store, views(store), SITE, now(), books=books).runs == 2
    close_course(store, views(store), SITE, "done")
    open_course(store, views(store), SITE, COURSE)
    found = compute_spent(store, views(store), SITE, now(), books=books)
    assert (found.runs, found.rounds) == (0, 0)


@pytest.mark.parametrize(
    ("course", "found", "why"),
    [
        (Course(max_runs=10), Spent(runs=10), "the budget of 10 runs is spent"),
        (Course(max_micro_dollars=2_000_000), Spent(micro_dollars=2_000_000), "is spent"),
        (Course(max_minutes=3), Spent(microseconds=180_000_000), "the budget of 3 minutes is spent"),
        (Course(max_verdicts=1), Spent(verdicts=1), "1 of 1 verdicts"),
    ],
)
def test_each_part_of_a_budget_ends_a_course(course: Course, found: Spent, why: str) -> None:
    assert why in (used_up(course, found) or "")
    assert used_up(course, Spent()) is None
    assert used_up(Course(), found) is None


def test_where_dollars_are_bounded_no_cost_that_is_not_known_counts_as_nothing() -> None:
    store, bounded = opened(), Course(max_micro_dollars=5_000)
    sweep = plan(store, "s1", 3)
    play(store, sweep.specs[:2], True, False)
    assert (used(store).unpriced, used_up(bounded, used(store))) == (0, None)
    play(store, sweep.specs[2:], None)
    found = used(store)
    assert (found.unpriced, used_up(bounded, found)) == (1, "the cost of 1 run is not known")
    unknown = sample("RewardGraded", run=sweep.specs[0].spec_id, cost=None, value=None)
    add(store, f"run/{sweep.specs[0].spec_id}", unknown)
    assert used_up(bounded, used(store)) == "the cost of 2 runs is not known"
    assert used_up(Course(), used(store)) is None


def advice(run: str, tokens: int | None, role: str = "recovery") -> Any:
    return sample("ModelCalled", run=run, role=role, step=None, input_tokens=tokens, output_tokens=tokens)


def test_what_recoverys_model_cost_counts_with_the_runs_at_the_prices_of_then() -> None:
    store = opened()
    add(store, "prices", sample("PriceBookSet"))
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    before, (run, other, *_) = used(store), [spec.spec_id for spec in sweep.specs]
    add(store, f"run/{run}", advice(run, 1_000))
    after = used(store)
    assert after.micro_dollars - before.micro_dollars == 18_000
    assert replace(after, micro_dollars=before.micro_dollars) == replace(before, microseconds=after.microseconds)
    dearer = sample("PriceBookSet", version=2, per_thousand_input_tokens=1_000_000, per_thousand_output_tokens=0)
    add(store, "prices", dearer)
    add(store, f"run/{other}", advice(other, 2_000, "verifier"), advice("elsewhere", 2_000))
    assert used(store).micro_dollars == after.micro_dollars
    add(store, f"run/{other}", advice(other, 2_000))
    assert used(store).micro_dollars - after.micro_dollars == 2_000_000


def test_an_answer_whose_tokens_are_not_told_leaves_the_cost_of_its_run_unknown() -> None:
    store = opened()
    add(store, "prices", sample("PriceBookSet"))
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    add(store, f"run/{sweep.specs[0].spec_id}", advice(sweep.specs[0].spec_id, None))
    assert used_up(Course(max_micro_dollars=10**9), used(store)) == "the cost of 1 run is not known"


@pytest.mark.parametrize(("executor", "counted"), [("policy", 0), (None, 1)])
def test_what_the_slow_loop_judges_does_not_count(executor: str | None, counted: int) -> None:
    store = opened()
    challenger = build_memory_artifact(views(store), "base")[0]
    open_one(store, "eval-1", challenger, executor=executor)
    play(store, [spec("r1", sweep="eval-1")], True)
    settle(store, "eval-1", challenger, by="controller")
    found = used(store)
    assert (found.runs, found.verdicts, found.micro_dollars > 0) == (counted, counted, counted > 0)


@pytest.mark.parametrize(("decisions", "void"), [(("void",), "eval-1"), (("void", "hold"), None), (("hold",), None)])
def test_the_evaluation_that_was_decided_last_is_told_where_it_is_void(
    decisions: tuple[str, ...], void: str | None
) -> None:
    store = opened()
    challenger = build_memory_artifact(views(store), "base")[0]
    for number, decision in enumerate(decisions, start=1):
        open_one(store, f"eval-{number}", challenger)
        settle(store, f"eval-{number}", challenger, decision, by="controller")
    assert used(store).void == void
    close_course(store, views(store), SITE, "done")
    open_course(store, views(store), SITE, COURSE)
    assert used(store).void is None


def test_minutes_go_by_since_the_course_was_opened() -> None:
    store = opened()
    (began,) = [recorded.at for recorded in store.read(types=["CourseOpened"])]
    assert used_up(COURSE, used(store, began + timedelta(minutes=1))) is None
    assert used_up(COURSE, used(store, began + timedelta(minutes=2))) == "the budget of 2 minutes is spent"


def test_a_round_takes_no_more_seeds_than_runs_are_left_for() -> None:
    assert seeds_within(Course(), Spent(runs=9_999), lambda: pytest.fail("asked")) == 12
    assert seeds_within(COURSE, Spent(runs=60), lambda: 8) == 5
    assert seeds_within(COURSE, Spent(runs=95), lambda: 8) == 0


def test_the_dollars_left_are_never_below_nothing() -> None:
    assert dollars_left(Course(), Spent(micro_dollars=5)) is None
    assert dollars_left(COURSE, Spent(micro_dollars=9_000)) == 0


def a_course(course: str = "c-1", **changes: object) -> Any:
    return sample("CourseOpened", course=course, **changes)


def a_close(course: str = "c-1", **changes: object) -> Any:
    return sample("CourseClosed", course=course, why="done", **changes)


def test_the_fold_keeps_the_last_course_of_each_environment() -> None:
    found = states(COURSES, a_course(), a_close(), a_course("c-2"), a_course("h-1", environment="helpdesk"))
    assert (found["fast/marketplace"].course, found["fast/marketplace"].number, found["fast/marketplace"].since) == (
        "c-2",
        2,
        3,
    )
    assert found["fast/marketplace"].is_open
    assert (found["fast/helpdesk"].number, found["fast/helpdesk"].closed) == (1, None)


def test_another_budget_of_the_same_course_keeps_when_it_was_opened() -> None:
    more = budget_of(replace(COURSE, max_runs=9)).model_dump()
    state = only(COURSES, a_course(), a_course(budget=more))
    assert (state.runs, state.since, state.number) == (9, 1, 1)
    assert only(COURSES, a_course(), a_close("c-0")).is_open


def test_a_course_that_is_opened_again_goes_on_with_what_it_has_spent_and_ends_again() -> None:
    store = opened()
    for ends in (1, 2):
        close_course(store, views(store), SITE, f"end {ends}")
        state = last_course(views(store), SITE)
        assert state is not None
        assert (state.number, state.ended, state.closed) == (1, ends, f"end {ends}")
        reopen_course(store, state)
        again = present_course(views(store), SITE)
        assert again is not None
        assert (again.course, again.since, again.opened_at) == (state.course, state.since, state.opened_at)


def test_the_courses_of_both_loops_are_counted_and_closed_apart() -> None:
    slow = {"loop": "slow"}
    events = (a_course(), a_course("s-1", **slow), a_close("s-1", **slow), a_course("s-2", **slow), a_close())
    found = states(COURSES, *events)
    assert list(found) == ["fast/marketplace", "slow/marketplace"]
    assert [(each.course, each.number, each.closed_since) for each in found.values()] == [
        ("c-1", 1, 5),
        ("s-2", 2, None),
    ]


def test_a_choice_between_loops_and_its_reason_are_shown_with_the_course_that_has_the_turn() -> None:
    def a_choice(loop: str, reason: str, slow: str = "s-1") -> Any:
        record = {"turns": 1, "cost": 5, "recent_gain": 1, "recent_cost": 5}
        records = {name: {"course": course, **record} for name, course in (("fast", "c-1"), ("slow", slow))}
        return sample("LoopChosen", environment="marketplace", loop=loop, reason=reason, **records)

    begun = (a_course(), a_course("s-1", loop="slow"))
    chosen = (a_choice("fast", "untried"), a_choice("slow", "untried"), a_choice("slow", "worth"))
    found = states(COURSES, *begun, *chosen, a_choice("slow", "worth", "s-0"))
    fast, slow = found["fast/marketplace"], found["slow/marketplace"]
    assert (fast.turns, fast.turn_since, fast.turn_reason) == (1, 3, "untried")
    assert describe_turn(slow) == "turn 2, chosen at 5 because it was worth more for its cost"
    assert only(COURSES, *begun[:1], chosen[0], a_close(), a_course()).turns == 1
    later = only(COURSES, *begun[:1], chosen[0], a_close(), a_course("c-2"))
    assert (later.turns, describe_turn(later)) == (0, "")


def test_a_course_of_the_slow_loop_bounds_and_closes_no_other() -> None:
    store = opened()
    slow = SlowCourse(stages=(), max_rounds=2)
    open_course(store, views(store), SITE, slow)
    open_course(store, views(store), SITE, replace(slow, max_rounds=5))
    close_course(store, views(store), SITE, "no round is left", "slow")
    present = present_course(views(store), SITE)
    assert present is not None
    assert (present.course, present.loop, present.rounds) == ("marketplace-course-1", "fast", 8)
    last = last_course(views(store), SITE, "slow")
    assert last is not None
    assert (last.course, last.rounds, last.runs, last.closed) == (
        "marketplace-slow-course-1",
        5,
        None,
        "no round is left",
    )
    actors = [each.actor for each in store.read(stream=f"course/{SITE}")]
    assert actors == ["controller", "slow-controller", "slow-controller", "slow-controller"]


def test_what_a_course_has_retired_does_not_come_back_before_it_ends() -> None:
    store = a_log()
    rule = PairedRule(controls=1, looks=(1,), single=(), single_trials=1)
    open_course(store, views(store), SITE, COURSE)
    propose(store, "rw-a", rule=rule)
    assert pieces_retired_in_course(views(store), SITE) == frozenset()
    retire(store, "rw-a")
    assert pieces_retired_in_course(views(store), SITE) == {"rw-a"}
    close_course(store, views(store), SITE, "done")
    assert pieces_retired_in_course(views(store), SITE) == frozenset()


def retire(store: MemoryStore, rewrite: str) -> None:
    lost = RewriteLost(rewrite=rewrite, run=f"{rewrite}-0", control_runs=("c",), control_successes=0)
    add(store, f"rewrite/{rewrite}", lost)
    assert views(store).find(REWRITES)[rewrite].status == "retired"
