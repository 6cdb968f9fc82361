"""How far sweeps are, as REST and the command line tell it: counts of a page of them, and one with its groups."""

from __future__ import annotations

import msgspec

from eventlog.store import EventStore
from projections.datasets.variance import GroupClass, classes
from projections.engine.views import Views

from ..errors import Unknown
from ..queries.sweeps import page_sweeps, plans_of
from .missing import MissingGroup, read_missing
from .progress import SweepProgress, sweep_progress


class SweepList(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of sweeps, newest first; `next` is the sweep to continue after, null where no more follow."""

    sweeps: tuple[SweepProgress, ...]
    next: str | None


class SweepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one sweep, whether its groups can be learned from, and why runs are missing."""

    sweep: SweepProgress
    groups: dict[str, GroupClass]
    missing: tuple[MissingGroup, ...]


def list_progress(store: EventStore, views: Views, *, after: str | None = None, limit: int) -> SweepList:
    """A page of the sweeps, newest first. Raises Unknown."""
    names, following = page_sweeps(store, views, after=after, limit=limit)
    events = (event for name in names for event in plans_of(store, views, name))
    return SweepList(sweeps=sweep_progress(views, events), next=following)


def show_progress(store: EventStore, views: Views, sweep: str) -> SweepAnswer:
    """One sweep. Raises Unknown."""
    refuse_unplanned(store, views, sweep)
    (found,) = sweep_progress(views, plans_of(store, views, sweep))
    missing = read_missing(store, views, f"{sweep}__")
    return SweepAnswer(sweep=found, groups=dict(classes(views, sweep)), missing=missing)


def refuse_unplanned(store: EventStore, views: Views, sweep: str) -> None:
    """Raise Unknown unless a sweep of this name was planned."""
    if not plans_of(store, views, sweep):
        raise Unknown(what="sweep", actual=sweep, way_out="`flywheel rollout status` names them.")
