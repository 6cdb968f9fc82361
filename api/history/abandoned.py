"""Outside runs that nobody goes on with: end them as missing, which is not a reward of zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from eventlog.events import ModelCalled, RunMissing
from eventlog.store import Append, Committed
from projections.engine.paging import page_states
from projections.engine.views import Views
from projections.runs import OUTSIDE, RUNS

from ..house import House

DETAIL: Final = "its agent told neither its end nor a reward, and nothing came for long"


@dataclass(frozen=True, slots=True)
class AbandonedRun:
    """An open run from outside: when something was last recorded of it, and how many model calls."""

    run: str
    group: str
    calls: int
    last: datetime
    version: int


def find_abandoned(house: House, views: Views, before: datetime) -> Iterator[AbandonedRun]:
    """The open runs from outside of which nothing was recorded since a time, in order of name."""
    for page in page_states(views, RUNS, prefix=OUTSIDE):
        for run, state in page.items():
            if state.is_ended:
                continue
            events = list(house.store.read(stream=f"run/{run}"))
            if events and events[-1].at < before:
                calls = sum(isinstance(each.event, ModelCalled) for each in events)
                yield AbandonedRun(run, state.group, calls, events[-1].at, events[-1].version)


def end_abandoned(house: House, found: Sequence[AbandonedRun], actor: str) -> tuple[str, ...]:
    """Record these runs as missing; returns those that were, without those of which something came meanwhile."""
    appends = [
        Append(
            f"run/{each.run}",
            (RunMissing(run=each.run, group=each.group, reason="interrupted", detail=DETAIL),),
            actor,
            expect=each.version,
        )
        for each in found
    ]
    outcomes = house.store.append(appends) if appends else ()
    return tuple(each.run for each, outcome in zip(found, outcomes, strict=True) if isinstance(outcome, Committed))
