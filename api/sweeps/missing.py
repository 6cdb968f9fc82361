"""Why runs are missing, in the words of the failures that stopped them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from agents.rollouts.dispatching.durable import Facts
from agents.rollouts.play import Played
from eventlog.events import RewardGraded, RunFinished, RunMissing, SweepPlanned
from eventlog.store import EventStore
from gate.figures import count_noun
from projections.engine.views import Views
from projections.runs import RUNS

from ..errors import NothingGraded

_MOST_READ: Final = 200
_MOST_TOLD: Final = 3


@dataclass(frozen=True, slots=True)
class MissingGroup:
    """Runs that are missing for the same reason with the same sentence. `runs` is their number."""

    reason: str
    detail: str
    runs: int


def group_missing(found: Iterable[RunMissing]) -> tuple[MissingGroup, ...]:
    """Missing runs by reason and sentence, the most frequent first."""
    counted = Counter((event.reason, event.detail) for event in found)
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return tuple(MissingGroup(reason, detail, runs) for (reason, detail), runs in ordered)


def read_missing(store: EventStore, views: Views, prefix: str) -> tuple[MissingGroup, ...]:
    """Why runs under a prefix are missing, from their ends in the log: of 200 of them at most, first by name."""
    names = (name for name, run in views.find(RUNS, prefix).items() if run.status == "missing")
    return group_missing(_ends(store, islice(names, _MOST_READ)))


def _ends(store: EventStore, names: Iterable[str]) -> Iterator[RunMissing]:
    for name in names:
        for recorded in store.read(stream=f"run/{name}", types=["RunMissing"]):
            if isinstance(recorded.event, RunMissing):
                yield recorded.event


def describe_missing(groups: Iterable[MissingGroup]) -> Iterator[str]:
    """A line for each of the largest groups, and one that counts the others."""
    found = tuple(groups)
    for each in found[:_MOST_TOLD]:
        yield f"{count_noun(each.runs, 'run')} missing, {each.reason}: {each.detail}"
    if others := found[_MOST_TOLD:]:
        yield f"{count_noun(sum(each.runs for each in others), 'run')} missing for other reasons"


def is_in_vain(views: Views, sweep: SweepPlanned) -> bool:
    """True if every run of a sweep is missing."""
    missing = {key for key, run in views.find(RUNS, f"{sweep.sweep}__").items() if run.status == "missing"}
    return all(spec.spec_id in missing for spec in sweep.specs)


def count_missing(views: Views, sweep: SweepPlanned) -> dict[str, int]:
    """Number of missing runs of a sweep, by template."""
    missing = {key for key, run in views.find(RUNS, f"{sweep.sweep}__").items() if run.status == "missing"}
    return dict(Counter(spec.template for spec in sweep.specs if spec.spec_id in missing))


def nothing_graded(store: EventStore, views: Views, sweep: str) -> NothingGraded:
    """The error that every run of a sweep is missing, with the reasons."""
    return NothingGraded(sweep=sweep, actual="; ".join(describe_missing(read_missing(store, views, f"{sweep}__"))))


def facts_of_end(played: Played) -> Facts:
    """Facts of a played run for the notice; only the status if another process ended it first."""
    if not played.stands:
        return {"status": "ended elsewhere"}
    facts: dict[str, object] = {}
    for event in played.events:
        match event:
            case RunFinished():
                facts["status"] = event.status
            case RewardGraded():
                facts |= {"passed": event.passed, "score": event.score}
            case RunMissing():
                facts |= {"status": "missing", "reason": event.reason, "detail": event.detail}
            case _:
                pass
    return facts
