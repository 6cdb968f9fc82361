"""Sweeps of a site: the open ones, one by its name, and the last round of the controller."""

from __future__ import annotations

from collections.abc import Iterable

from eventlog.events import SweepPlanned
from eventlog.store import EventStore
from projections.engine.views import Views
from projections.sweeps import SWEEPS, SweepsState

from ..course import CONTROLLER


def sweeps_on(views: Views, site: str) -> SweepsState:
    """What was planned on a site."""
    return views.get(SWEEPS, site) or SweepsState()


def plans_of(store: EventStore, views: Views, sweep: str) -> tuple[SweepPlanned, ...]:
    """The plan of a sweep, then those that add siblings to it; empty if there is no such sweep."""
    found = (recorded.event for recorded in store.read(stream=f"sweep/{sweep}", upto=views.upto))
    return tuple(event for event in found if isinstance(event, SweepPlanned))


def open_sweeps(store: EventStore, views: Views, site: str) -> tuple[SweepPlanned, ...]:
    """The plans of the sweeps of a site that have not ended, or from which nothing was learned yet, in order."""
    return tuple(event for name in sweeps_on(views, site).open for event in plans_of(store, views, name))


def last_round(store: EventStore, views: Views, site: str, actor: str = CONTROLLER) -> SweepPlanned | None:
    """The last sweep that an actor planned on a site to learn from, with added siblings."""
    name = sweeps_on(views, site).last_round(actor)
    return None if name is None else whole_sweep(plans_of(store, views, name))


def whole_sweep(plans: Iterable[SweepPlanned]) -> SweepPlanned | None:
    """The first of the plans of a sweep with the specs of all of them; None if there is none."""
    first, *more = [*plans] or [None]
    if first is None:
        return None
    specs = tuple(spec for event in (first, *more) if event is not None for spec in event.specs)
    return first.model_copy(update={"specs": specs})
