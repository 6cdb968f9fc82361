"""What a turn of one of both loops gained and cost, read from logs of a few events."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.learning.memory import build_memory_artifact
from agents.rewards import DEFAULT_PRICES
from api.controllers.both_next import turn_cost
from api.controllers.both_turns import compute_cost, compute_gain, sweeps_planned
from api.controllers.slow_next import benchmark_name
from api.course import CONTROLLER
from eventlog.events import CheckpointSaved, CourseLoop, LoopRecord, TrainingFailed, TrainingProgressed, TrainingStarted
from eventlog.memory import MemoryStore
from eventlog.store import Position
from projections.verdicts import VERDICTS
from tests.golden.test_golden_samples import sample
from tests.unit import test_slow_decide as slow
from tests.unit.test_agent_samples import add, finished, spec, started, views
from tests.unit.test_fast_decide import SITE, a_log, open_one, plan, play, settle

LOOPS: tuple[CourseLoop, ...] = ("fast", "slow")


def priced() -> MemoryStore:
    """A log with prices."""
    store = a_log()
    add(store, "prices", DEFAULT_PRICES)
    return store


def costs(store: MemoryStore, since: Position) -> dict[str, int]:
    return {loop: compute_cost(store, views(store), SITE, loop, since) or 0 for loop in LOOPS}


def gains(store: MemoryStore, since: Position) -> dict[str, int]:
    return {loop: compute_gain(views(store), SITE, loop, since) for loop in LOOPS}


def judged(
    decision: str = "promote", benchmark: str | None = None, by: str = CONTROLLER
) -> tuple[MemoryStore, Position]:
    """A log with one verdict on a benchmark of the site, and the position before it."""
    store = a_log()
    since, challenger = store.head(), build_memory_artifact(views(store), "base")[0]
    name = benchmark or f"{SITE}-1"
    open_one(store, "eval-1", challenger, name, by=by)
    settle(store, "eval-1", challenger, decision)
    return store, since


def test_a_promotion_gained_what_the_visible_instances_show_and_at_least_what_the_rules_ask_for() -> None:
    store, since = judged()
    (state,) = views(store).find(VERDICTS).values()
    verdict = state.verdict_reached()
    assert verdict is not None
    shown = 0 if verdict.visible is None else verdict.visible.challenger_mean - verdict.visible.champion_mean
    assert gains(store, since) == {"fast": max(shown, verdict.rules.min_mean_delta), "slow": 0}
    assert gains(store, since)["fast"] > 0
    assert gains(store, store.head()) == {"fast": 0, "slow": 0}


@pytest.mark.parametrize("decision", ["hold", "void"])
def test_what_was_not_promoted_gained_nothing(decision: str) -> None:
    store, since = judged(decision)
    assert gains(store, since) == {"fast": 0, "slow": 0}


def test_another_sites_promotion_is_not_counted() -> None:
    store, since = judged(benchmark="shop-1")
    assert gains(store, since) == {"fast": 0, "slow": 0}


def test_what_somebody_judged_by_hand_is_no_loops_turn() -> None:
    store, since = judged(by="ann")
    add(store, "prices", DEFAULT_PRICES)
    play(store, [spec("eval-1__r0", sweep="eval-1")], True)
    assert (gains(store, since), costs(store, since)) == ({"fast": 0, "slow": 0},) * 2


def test_a_turn_costs_the_runs_of_its_sweeps_and_evaluations_and_no_others() -> None:
    store = priced()
    play(store, plan(store, "s0").specs, True, False)
    since = store.head()
    play(store, plan(store, "by-hand", by="ann").specs, True, False)
    assert costs(store, since) == {"fast": 0, "slow": 0}
    play(store, plan(store, "s1").specs, True, False)
    swept = costs(store, since)["fast"]
    assert swept > 0
    open_one(store, "eval-1", build_memory_artifact(views(store), "base")[0])
    play(store, [spec("eval-1__r0", sweep="eval-1")], True)
    assert costs(store, since) == {"fast": swept + swept // 2, "slow": 0}
    assert sweeps_planned(views(store), SITE, "fast", since) == ("s1",)


def test_a_run_whose_cost_is_not_known_counts_as_the_mean_of_the_others() -> None:
    store = priced()
    since = store.head()
    play(store, plan(store, "s1").specs, True, False)
    known = costs(store, since)["fast"]
    play(store, plan(store, "s2").specs, True, None)
    assert costs(store, since)["fast"] == 2 * known > 0


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_a_turn_without_a_priced_run_costs_its_seconds_and_is_unknown_where_they_cost_nothing(
    wall: int, per_second: int
) -> None:
    store = priced()
    add(store, "prices", DEFAULT_PRICES.model_copy(update={"per_second": per_second}))
    since, (first, second) = store.head(), plan(store, "s1").specs
    end = finished(first)
    end = end.model_copy(update={"usage": end.usage.model_copy(update={"wall_microseconds": wall})})
    add(store, f"run/{first.spec_id}", started(first), end)
    play(store, [second], None)
    found = compute_cost(store, views(store), SITE, "fast", since)
    assert found == (wall * per_second // 1_000_000 or None)
    other = LoopRecord(course="slow", turns=2, cost=7_001, recent_gain=0, recent_cost=0)
    assert turn_cost(found, other) == (found or 3_500) > 0


def test_the_slow_loop_pays_for_its_sweeps_and_for_the_seconds_that_it_trained() -> None:
    store = slow.a_log()
    add(store, "prices", DEFAULT_PRICES.model_copy(update={"per_second": 10**9}))
    since = store.head()
    sweep = slow.plan(store, "s1")
    before = costs(store, since)
    assert before == {"fast": 0, "slow": 0}
    assert sweeps_planned(views(store), SITE, "slow", since) == ("s1",)
    progressed = sample("TrainingProgressed")
    slow.train(store, sweep, slow.SFT, slow.STARTED, progressed, slow.STARTED, slow.FAILED)
    types = (TrainingStarted, TrainingProgressed, TrainingFailed, CheckpointSaved)
    first, step, again, end = [each.at for each in store.read() if isinstance(each.event, types)]
    trained = (step - first) + (end - again)
    assert costs(store, since) == {"fast": 0, "slow": trained * 10**9 // timedelta(seconds=1)}
    assert costs(store, store.head()) == {"fast": 0, "slow": 0}


def test_a_verdict_on_the_benchmarks_of_checkpoints_is_the_slow_loops() -> None:
    store = slow.a_log()
    since = store.head()
    sweep = slow.plan(store, "s1")
    checkpoint = slow.train(store, sweep, slow.SFT, slow.STARTED, slow.SAVED)
    slow.open_on(store, checkpoint)
    assert slow.settle(store, checkpoint, [1_000_000] * 8) == "promote"
    found = gains(store, since)
    assert (found["fast"], found["slow"] > 0) == (0, True)
    assert slow.FROZEN.benchmark == benchmark_name(SITE)
