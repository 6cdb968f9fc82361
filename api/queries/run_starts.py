"""Runs in order of their beginning: those of a span of the log, found by the events that began them."""

from __future__ import annotations

from itertools import islice

from eventlog.events import RunStarted
from eventlog.store import EventStore, Position
from projections.engine.paging import PAGE
from projections.engine.views import Views
from projections.runs import RUNS

from .paging import MOST_READ
from .runs import GradedRun, RunFilter, RunPage, pick_runs, row_of_run


def list_runs_by_start(
    store: EventStore, views: Views, wanted: RunFilter, after: int, until: int, *, limit: int
) -> RunPage:
    """A page of the runs that began after a position and up to another, in this order; `next` is a position."""
    found, following = runs_by_start(store, views, wanted, after, until, limit=limit)
    return RunPage(runs=tuple(map(row_of_run, found)), next=following)


def runs_by_start(
    store: EventStore, views: Views, wanted: RunFilter, after: int, until: int, *, limit: int
) -> tuple[tuple[GradedRun, ...], str | None]:
    """Such runs with their grades, and the position to continue after.

    A page ends after MOST_READ runs were looked at, even if few of them are wanted.
    """
    upto = Position(min(until, views.upto))
    began = islice(store.read(after=Position(after), upto=upto, types=["RunStarted"]), MOST_READ + 1)
    found: dict[str, GradedRun] = {}
    places: dict[str, int] = {}
    while some := {each.event.run: each.position for each in islice(began, PAGE) if isinstance(each.event, RunStarted)}:
        places |= some
        page = wanted.keep(views, views.pick(RUNS, some))
        graded = pick_runs(views, page)
        found |= {run: graded[run] for run in some if run in graded}
        if len(found) > limit or len(places) > MOST_READ:
            break
    rows = tuple(islice(found.values(), limit))
    is_cut = len(places) > MOST_READ and len(found) <= limit
    last = list(places.values())[-1] if is_cut else places[rows[-1].run.run] if len(found) > limit else None
    return rows, None if last is None else str(last)
