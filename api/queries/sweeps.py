"""Sweeps of a site: the open ones, one by its name, and the last round of the controller."""

from __future__ import annotations

from collections.abc import Iterable

from eventlog.disowned import read_in_force
from eventlog.events import SweepPlanned, Template
from eventlog.store import EventStore, Position
from projections.engine.views import Views
from projections.sweeps import SWEEPS, SweepsState

from ..course import CONTROLLER


def sweeps_on(views: Views, site: str) -> SweepsState:
    """Plans of the sweeps on a site."""
    return views.get(SWEEPS, site) or SweepsState()


def list_sweeps(views: Views) -> dict[str, SweepsState]:
    """Plans of the sweeps on each site, by its name."""
    return views.find(SWEEPS)


def plans_of(store: EventStore, views: Views, sweep: str) -> tuple[SweepPlanned, ...]:
    """The plan of a sweep, then those that add siblings to it; empty if there is no such sweep."""
    found = (recorded.event for recorded in read_in_force(store, stream=f"sweep/{sweep}", upto=views.upto))
    return tuple(event for event in found if isinstance(event, SweepPlanned))


def open_sweeps(store: EventStore, views: Views, site: str) -> tuple[SweepPlanned, ...]:
    """The plans of the sweeps of a site that have not ended, or from which nothing was learned yet, in order."""
    return tuple(event for name in sweeps_on(views, site).open for event in plans_of(store, views, name))


def last_round(
    store: EventStore, views: Views, site: str, tasks: Iterable[Template], actor: str = CONTROLLER
) -> SweepPlanned | None:
    """The last sweep that an actor planned on a site to learn from, with added siblings.

    None if there is none, or if it lacked any of these tasks, because it says nothing about those.
    """
    name = sweeps_on(views, site).last_round(actor)
    last = None if name is None else whole_sweep(plans_of(store, views, name))
    held = set() if last is None else {each.template_id for each in last.templates}
    return last if held.issuperset(each.template_id for each in tasks) else None


def whole_sweep(plans: Iterable[SweepPlanned]) -> SweepPlanned | None:
    """The first of the plans of a sweep with the specs of all of them; None if there is none."""
    every = tuple(plans)
    specs = tuple(spec for event in every for spec in event.specs)
    return every[0].model_copy(update={"specs": specs}) if every else None


def planned_by(store: EventStore, actor: str) -> tuple[SweepPlanned, ...]:
    """SweepPlanned events of an actor on all sites, in order.

    The database looks at the actor of every SweepPlanned of the log; only those of this actor are decoded.
    """
    found = (recorded.event for recorded in read_in_force(store, types=["SweepPlanned"], actor=actor))
    return tuple(event for event in found if isinstance(event, SweepPlanned))


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
