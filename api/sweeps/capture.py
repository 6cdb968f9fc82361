"""Captures what the good runs of a sweep that has ended show about those that failed, once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from agents.learning.capture import Captured, FailingStep, GoodRun, capture, failing_place
from agents.plans import plan_from
from eventlog.chain import microseconds
from eventlog.errors import BlobErased
from eventlog.events import PieceKind, PromotionRule, SweepPlanned
from eventlog.store import Append, EventStore
from projections.candidacy import Candidacy
from projections.contamination import contaminated_runs
from projections.engine.views import Views
from projections.failures import FAILURES
from projections.memories import candidacies
from projections.rewards import REWARDS
from projections.runs import PLANLESS, RUNS
from projections.taint import left_out

from ..course import CONTROLLER
from ..house import House
from .jobs import returning_now


def capture_from(
    house: House, sweep: SweepPlanned, rule: PromotionRule, kinds: Collection[PieceKind], *, brings_back: bool = True
) -> None:
    """Append what good runs show about failing steps, as candidates under this rule; of these kinds alone.

    Only plain runs count, that passed with the artifact as it was: none that tried something, was contaminated or
    withdrawn, or belongs to a benchmark. What is known already is not appended again; with `brings_back` what was given
    up comes back by a sweep that was planned since, never by the one that gave it.
    """
    views = house.views()
    failing = tuple(failing_of(views, sweep))
    if not failing:
        return
    found = [each for each in capture(failing, good_runs(house, views, sweep)) if each.kind in kinds]
    states = candidacies(views)
    returning = returning_now(views, sweep.environment) if brings_back else frozenset()
    known = states.keys() - returning_by(house.store, sweep, {name: states[name] for name in returning})
    fresh = [each for each in found if each.name not in known]
    house.blobs.put([each.content for each in fresh])
    house.store.append([_append(each, sweep, rule) for each in fresh])


def returning_by(store: EventStore, sweep: SweepPlanned, returning: Mapping[str, Candidacy]) -> frozenset[str]:
    """Of the pieces that may return, those that this sweep may bring back.

    It was planned after they were given up, and none of its own runs proposed them.
    """
    planned = next(store.read(stream=f"sweep/{sweep.sweep}", types=["SweepPlanned"]), None)
    since = 0 if planned is None else microseconds(planned.at)
    own = f"{sweep.sweep}__"
    return frozenset(
        name for name, state in returning.items() if state.last_at < since and not state.proposed_by.startswith(own)
    )


def failing_of(views: Views, sweep: SweepPlanned) -> Iterator[FailingStep]:
    """The steps at which plain runs of a sweep failed, each once, in order of template and place."""
    prefix = f"{sweep.sweep}__"
    plain = {spec.spec_id for spec in sweep.specs if spec.is_plain} - contaminated_runs(views, prefix)
    plans = {template.template_id: template.plan_steps for template in sweep.templates}
    places = set()
    for state in views.find(FAILURES, prefix).values():
        if state.is_failure and state.run in plain and state.template in plans:
            place = failing_place(plans[state.template], state.step_intent)
            places |= {(state.template, place)} if place is not None else set()
    for template, place in sorted(places):
        yield FailingStep(sweep.environment, template, plans[template], place)


def good_runs(house: House, views: Views, sweep: SweepPlanned) -> Iterator[GoodRun]:
    """The plain runs of a sweep that passed, in order, with the plans that they executed."""
    prefix = f"{sweep.sweep}__"
    runs, rewards = views.find(RUNS, prefix), views.find(REWARDS, prefix)
    barred = contaminated_runs(views, prefix) | left_out(views).keys()
    for spec in sweep.specs:
        run, reward = runs.get(spec.spec_id), rewards.get(spec.spec_id)
        if run is None or reward is None or not reward.passed or not spec.is_plain or spec.spec_id in barred:
            continue
        if run.evaluation is not None or run.executor in PLANLESS:
            continue
        try:
            plan = plan_from(house.blobs.get(run.plan).body)
        except BlobErased:
            continue
        yield GoodRun(run.run, run.template, plan, reward.score if reward.value is None else reward.value)


def _append(piece: Captured, sweep: SweepPlanned, rule: PromotionRule) -> Append:
    event, key = piece.event(rule), f"propose:{piece.name}:{sweep.sweep}"
    return Append(f"{piece.kind}/{piece.name}", (event,), CONTROLLER, key=key)
