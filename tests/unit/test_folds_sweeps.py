"""Sweeps and evaluations: what is open, and what is kept of the rest."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import AnyEvent, EvaluationOpened, SweepPlanned
from eventlog.memory import MemoryStore
from eventlog.store import Append, Position
from projections.engine.views import ReplayedViews
from projections.evaluations import EVALUATIONS, EvaluationsState
from projections.sweeps import SWEEP_PLANS, SWEEPS, Ranges, SweepsState, plan_prefix, ranges_of
from tests.golden.test_golden_samples import sample

from .test_folds_samples import DAWN, changed, only

SITE = "marketplace"


def planned(sweep: str, *seeds: int, **changes: Any) -> Any:
    event = sample("SweepPlanned", sweep=sweep, environment=SITE, **changes)
    assert isinstance(event, SweepPlanned)
    specs = [event.specs[0].model_dump(mode="json") | {"env_seed": seed} for seed in seeds]
    return changed(event, "specs", specs)


def ended(sweep: str) -> Any:
    return sample("SweepEnded", sweep=sweep, environment=SITE)


def told(*events: AnyEvent, by: str = "controller") -> SweepsState:
    """What is known of the site after these events, each in its sweep's stream."""
    store = MemoryStore(lambda: DAWN)
    for event in events:
        store.append([Append(f"sweep/{getattr(event, 'sweep', '')}", (event,), by)])
    return ReplayedViews(store, Position(len(events))).get(SWEEPS, SITE) or SweepsState()


def test_a_sweep_is_open_until_it_has_ended_and_again_when_siblings_are_added() -> None:
    first = (planned("s1", 1), planned("s2", 2))
    assert told(*first).open == ("s1", "s2")
    assert told(*first, ended("s1")).open == ("s2",)
    again = told(*first, ended("s1"), planned("s1", 1))
    assert (again.open, again.planned) == (("s2", "s1"), 2)


def test_each_plan_is_kept_with_its_actor_its_tasks_and_its_seeds() -> None:
    store = MemoryStore(lambda: DAWN)
    events = (("s1", planned("s1", 1, 2), "controller"), ("s2", planned("s2", 7), "operator"))
    for sweep, event, by in (*events, ("s1", planned("s1", 3), "controller")):
        store.append([Append(f"sweep/{sweep}", (event,), by)])
    found = ReplayedViews(store, store.head()).find(SWEEP_PLANS, plan_prefix("controller"))
    (state,) = found.values()
    assert list(found) == [f"controller/{SITE}/s1"]
    assert (state.since, [each.seeds for each in state.tasks]) == (1, [((1, 3),), ()])
    template = planned("s1", 1).templates[0]
    assert state.instances() == {(SITE, template.oracle_task_id, seed) for seed in (1, 2, 3)}


def test_what_is_kept_of_a_site_does_not_grow_with_its_sweeps() -> None:
    story = [event for number in range(50) for event in (planned(f"s{number}", number), ended(f"s{number}"))]
    state = told(*story)
    assert (state.open, state.planned, state.seeds) == ((), 50, ((0, 49),))


def test_the_last_round_is_the_last_sweep_that_learns_by_the_same_actor() -> None:
    state = told(planned("s1", 1), planned("s2", 2, learns=False), planned("s1", 3))
    assert (state.last_round("controller"), state.last_round("operator")) == ("s1", None)


@given(st.lists(st.sets(st.integers(0, 40), max_size=8), max_size=6))
def test_the_seeds_that_were_used_are_those_of_all_plans(sweeps: list[set[int]]) -> None:
    ranges: Ranges = ()
    for seeds in sweeps:
        ranges = ranges_of(seeds, ranges)
    used = set().union(*sweeps)
    assert [*SweepsState(seeds=ranges).unused_seeds(43)] == [seed for seed in range(43) if seed not in used]
    assert all(after - before > 1 for (_, before), (after, _) in pairwise(ranges))


def opened(evaluation: str) -> Any:
    return sample("EvaluationOpened", evaluation=evaluation)


def reached(evaluation: str, decision: str) -> Any:
    opening = sample("EvaluationOpened")
    assert isinstance(opening, EvaluationOpened)
    event = changed(sample("VerdictReached", evaluation=evaluation), "verdict.benchmark", opening.benchmark_digest)
    return changed(event, "verdict.decision", decision)


def test_an_evaluation_is_open_until_its_verdict() -> None:
    both = (opened("e1"), opened("e2"))
    state: EvaluationsState = only(EVALUATIONS, *both)
    assert {(each.weights, each.opened_by) for each in state.evaluations} == {(both[0].challenger.weights, "test")}
    assert (state.open, [each.is_open for each in state.evaluations]) == (2, [True, True])
    state = only(EVALUATIONS, *both, reached("e1", "hold"))
    assert (state.open, [each.decision for each in state.evaluations]) == (1, ["hold", None])


def test_a_verdict_on_what_was_never_opened_counts_for_nothing() -> None:
    state = only(EVALUATIONS, opened("e1"), reached("e9", "promote"))
    assert (state.open, [each.evaluation for each in state.evaluations]) == (1, ["e1"])
