"""How a sweep stands: every spec that was planned, and what became of it. Pure over views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eventlog.events import SweepPlanned
from projections.engine.views import Views
from projections.rewards import REWARDS, RewardState
from projections.runs import RUNS, RunState


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Counts of one sweep: `received = graded + missing + failed + playing + waiting`.

    Each spec is in one of them. graded: completed, and the oracle spoke. failed: the agent halted or ran out of budget
    (the oracle spoke too). missing: the platform's fault, no reward. playing: started and not ended. waiting: not
    started. `passed` is how many the oracle passed, of graded and failed.
    """

    sweep: str
    environment: str
    artifact: str
    received: int
    graded: int
    failed: int
    missing: int
    playing: int
    waiting: int
    passed: int
    cost: int

    @property
    def is_ended(self) -> bool:
        """Whether nothing is left to play."""
        return self.playing == self.waiting == 0

    def sentence(self) -> str:
        """The books of it in words."""
        books = f"{self.received} received = {self.graded} graded + {self.missing} missing + {self.failed} failed"
        return books if self.is_ended else f"{books} + {self.playing} playing + {self.waiting} waiting"


def sweep_progress(views: Views, events: Iterable[SweepPlanned]) -> tuple[SweepProgress, ...]:
    """How each sweep stands, in the order in which they were planned."""
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
    known = [rewards[name] for name in names if name in rewards]
    return SweepProgress(
        sweep=first.sweep,
        environment=first.environment,
        artifact=str(first.artifact),
        received=len(names),
        graded=statuses.count("completed"),
        failed=statuses.count("halted") + statuses.count("out_of_budget"),
        missing=statuses.count("missing"),
        playing=statuses.count("started"),
        waiting=statuses.count("waiting"),
        passed=sum(reward.passed for reward in known),
        cost=sum(reward.cost or 0 for reward in known),
    )
