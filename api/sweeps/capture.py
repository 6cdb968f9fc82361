"""Capture pieces from passed runs of an ended sweep for the steps at which other runs failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from agents.learning.capture import Captured, FailingStep, GoodRun, capture, failing_place
from agents.plans import plan_from
from eventlog.chain import microseconds
from eventlog.disowned import read_in_force
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
    """Append pieces of these kinds captured from passed runs for failing steps, as candidates under this rule.

    Only plain runs count: no trials, contaminated or withdrawn runs, and none of a benchmark. Known pieces are not
    proposed again. With `brings_back`, a given-up piece becomes a candidate again if the sweep was planned after that
    and did not propose it itself.
    """
    views = house.views()
    failing = tuple(failing_of(views, sweep))
    if not failing:
        return
    propose(house, views, sweep, capture(failing, good_runs(house, views, sweep)), rule, kinds, brings_back=brings_back)


def propose(
    house: House,
    views: Views,
    sweep: SweepPlanned,
    captured: Iterable[Captured],
    rule: PromotionRule,
    kinds: Collection[PieceKind],
    *,
    brings_back: bool,
) -> None:
    """Append those of the captured pieces that `fresh_appends` gives."""
    house.store.append(fresh_appends(house, views, sweep, captured, rule, kinds, brings_back=brings_back))


def fresh_appends(
    house: House,
    views: Views,
    sweep: SweepPlanned,
    captured: Iterable[Captured],
    rule: PromotionRule,
    kinds: Collection[PieceKind],
    *,
    brings_back: bool,
) -> list[Append]:
    """Appends of the captured pieces of these kinds that are not known, or may be brought back; stores their content.

    Each piece is proposed once.
    """
    found = {each.name: each for each in captured if each.kind in kinds}
    states = candidacies(views)
    returning = returning_now(views, sweep.environment) if brings_back else frozenset()
    known = states.keys() - returning_by(house.store, sweep, {name: states[name] for name in returning})
    fresh = [each for name, each in found.items() if name not in known]
    house.blobs.put([each.content for each in fresh])
    return [_append(each, sweep, rule) for each in fresh]


def returning_by(store: EventStore, sweep: SweepPlanned, returning: Mapping[str, Candidacy]) -> frozenset[str]:
    """The pieces in `returning` that this sweep may bring back.

    The sweep must be planned after they were given up, and none of its runs may have proposed them.
    """
    planned = next(read_in_force(store, stream=f"sweep/{sweep.sweep}", types=["SweepPlanned"]), None)
    since = 0 if planned is None else microseconds(planned.at)
    own = f"{sweep.sweep}__"
    return frozenset(
        name for name, state in returning.items() if state.last_at < since and not state.proposed_by.startswith(own)
    )


def failing_of(views: Views, sweep: SweepPlanned) -> Iterator[FailingStep]:
    """Steps at which plain runs of a sweep failed, without duplicates, ordered by template and place."""
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
    """Plain runs of a sweep that passed, in order, with their executed plans."""
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
