"""Sweeps of a site: the open ones, one by its name, and the last round of the controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eventlog.disowned import read_in_force
from eventlog.events import SweepPlanned, Template
from eventlog.store import EventStore, Position
from projections.engine.views import Views
from projections.sweeps import NEWEST_SWEEPS, SWEEP_PLANS, SWEEPS, SweepsState, newest_key, plan_prefix

from ..course import CONTROLLER
from ..errors import Unknown
from .paging import page_after


def sweeps_on(views: Views, site: str) -> SweepsState:
    """Plans of the sweeps on a site."""
    return views.get(SWEEPS, site) or SweepsState()


def list_sweeps(views: Views) -> dict[str, SweepsState]:
    """Plans of the sweeps on each site, by its name."""
    return views.find(SWEEPS)


def plans_of(store: EventStore, views: Views, sweep: str) -> tuple[SweepPlanned, ...]:
    """The plan of a sweep, then those that add siblings to it; empty if there is no such sweep."""
    return tuple(event for _actor, event in _read_plans(store, views, sweep))


def _read_plans(store: EventStore, views: Views, sweep: str) -> Iterator[tuple[str, SweepPlanned]]:
    """Who planned, and what: the plan of a sweep, then those that add siblings to it."""
    for recorded in read_in_force(store, stream=f"sweep/{sweep}", upto=views.upto):
        if isinstance(recorded.event, SweepPlanned):
            yield recorded.actor, recorded.event


def open_sweeps(store: EventStore, views: Views, site: str) -> tuple[SweepPlanned, ...]:
    """The plans of the sweeps of a site that have not ended, or from which nothing was learned yet, in order."""
    return tuple(event for name in sweeps_on(views, site).open for event in plans_of(store, views, name))


def last_round(
    store: EventStore,
    views: Views,
    site: str,
    tasks: Iterable[Template],
    player: tuple[str | None, str | None],
    actor: str = CONTROLLER,
) -> SweepPlanned | None:
    """The last sweep that an actor planned on a site to learn from, with added siblings.

    None if there is none, or if it says nothing about these tasks or this player (see `recorded_as`): it lacked any of
    the tasks, or it was planned for another executor or model.
    """
    name = sweeps_on(views, site).last_round(actor)
    last = None if name is None else whole_sweep(plans_of(store, views, name))
    if last is None or (last.executor, last.model) != player:
        return None
    held = {each.template_id for each in last.templates}
    return last if held.issuperset(each.template_id for each in tasks) else None


def whole_sweep(plans: Iterable[SweepPlanned]) -> SweepPlanned | None:
    """The first of the plans of a sweep with the specs of all of them; None if there is none."""
    every = tuple(plans)
    specs = tuple(spec for event in every for spec in event.specs)
    return every[0].model_copy(update={"specs": specs}) if every else None


def planned_by(store: EventStore, views: Views, actor: str, site: str = "") -> tuple[SweepPlanned, ...]:
    """SweepPlanned events of the sweeps that an actor planned, on one site or (empty) on all, in order.

    The plans of others are not looked at.
    """
    found = views.find(SWEEP_PLANS, plan_prefix(actor, site)).values()
    own = (each for each in found if each.actor == actor and each.environment == (site or each.environment))
    in_order = sorted(own, key=lambda each: each.since)
    planned = (each for plan in in_order for each in _read_plans(store, views, plan.sweep))
    return tuple(event for by, event in planned if by == actor)


def page_sweeps(
    store: EventStore, views: Views, *, after: str | None = None, limit: int
) -> tuple[tuple[str, ...], str | None]:
    """A page of the names of all sweeps, newest first, those older than `after`; and where it goes on. Raises Unknown.

    A sweep whose first plan was disowned is none.
    """
    start = None if after is None else newest_key(_planned_at(store, views, after))
    page, following = page_after(views, NEWEST_SWEEPS, start, limit)
    names = tuple(each.sweep for each in page.values())
    return names, None if following is None else names[-1]


def _planned_at(store: EventStore, views: Views, sweep: str) -> int:
    """The position of the first plan of a sweep. Raises Unknown."""
    first = next(iter(read_in_force(store, stream=f"sweep/{sweep}", upto=views.upto)), None)
    if first is None:
        raise Unknown(what="sweep", actual=sweep, way_out="`flywheel rollout status` names them.")
    return int(first.position)


def names_planned_by(views: Views, actor: str) -> frozenset[str]:
    """Names of the sweeps that an actor planned on all sites."""
    found = views.find(SWEEP_PLANS, plan_prefix(actor)).values()
    return frozenset(each.sweep for each in found if each.actor == actor)


def rounds_of(store: EventStore, site: str, after: int = 0) -> tuple[SweepPlanned, ...]:
    """Learning sweeps that the controller planned on a site after a position, in order, with added siblings."""
    found: dict[str, SweepPlanned] = {}
    for recorded in read_in_force(store, after=Position(after), types=["SweepPlanned"]):
        event = recorded.event
        if not isinstance(event, SweepPlanned) or event.environment != site:
            continue
        if event.sweep in found:
            first = found[event.sweep]
            found[event.sweep] = first.model_copy(update={"specs": first.specs + event.specs})
        elif event.learns and recorded.actor == CONTROLLER:
            found[event.sweep] = event
    return tuple(found.values())
