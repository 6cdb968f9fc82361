"""Progress of sweeps: the status of every planned spec. Pure over views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from eventlog.events import SweepPlanned
from projections.engine.views import Views
from projections.rewards import REWARDS, RewardState
from projections.runs import RUNS, RunState

_ENDED: Final = frozenset({"completed", "halted", "out_of_budget"})


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Counts of one sweep: `received = graded + ungraded + missing + playing + waiting`.

    Each spec is in exactly one. graded: ended with a reward. ungraded: ended without one. missing: the platform failed.
    playing: started and not ended. waiting: not started. Of the graded runs, the oracle passed `passed`, and the agent
    gave up or ran out of its budget in `halted`.
    """

    sweep: str
    environment: str
    artifact: str
    received: int
    graded: int
    ungraded: int
    halted: int
    missing: int
    playing: int
    waiting: int
    passed: int
    cost: int

    @property
    def is_ended(self) -> bool:
        """True if nothing is left to play."""
        return self.playing == self.waiting == 0

    @property
    def is_in_vain(self) -> bool:
        """True if a sweep ended without a graded run."""
        return self.is_ended and self.received > 0 == self.graded

    def sentence(self) -> str:
        """The counts as text."""
        books = f"{self.received} received = {self.graded} graded + {self.missing} missing"
        books += f" + {self.ungraded} ended without a grade" if self.ungraded else ""
        return books if self.is_ended else f"{books} + {self.playing} playing + {self.waiting} waiting"


def sweep_progress(views: Views, events: Iterable[SweepPlanned]) -> tuple[SweepProgress, ...]:
    """Progress of each sweep, in the order in which they were planned."""
    by_name: dict[str, list[SweepPlanned]] = {}
    for event in events:
        by_name.setdefault(event.sweep, []).append(event)
    return tuple(_progress(views, planned) for planned in by_name.values())


def _progress(views: Views, planned: list[SweepPlanned]) -> SweepProgress:
    first = planned[0]
    prefix = f"{first.sweep}__"
    runs: Mapping[str, RunState] = views.find(RUNS, prefix)
    rewards: Mapping[str, RewardState] = views.find(REWARDS, prefix)
    names = [spec.spec_id for event in planned for spec in event.specs]
    statuses = [runs[name].status if name in runs else "waiting" for name in names]
    ended = {name for name, status in zip(names, statuses, strict=True) if status in _ENDED}
    known = {name: rewards[name] for name in names if name in rewards}
    graded = ended & known.keys()
    return SweepProgress(
        sweep=first.sweep,
        environment=first.environment,
        artifact=str(first.artifact),
        received=len(names),
        graded=len(graded),
        ungraded=len(ended - graded),
        halted=sum(runs[name].status != "completed" for name in graded),
        missing=statuses.count("missing"),
        playing=statuses.count("started"),
        waiting=statuses.count("waiting"),
        passed=sum(reward.passed for reward in known.values()),
        cost=sum(reward.cost or 0 for reward in known.values()),
    )
