"""What the log says is still to be played on a site: specs of sweeps that were planned and have not ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.executors.executor import Executor
from agents.rollouts.play import PLAN
from agents.rollouts.queue import RolloutQueue, Ticket, tickets
from eventlog.events import SweepPlanned
from eventlog.store import START, Position
from projections.runs import RUNS
from projections.views import Views

from .decide import ended
from .exclusive import is_controlled
from .executing import plays
from .house import House


@dataclass(slots=True)
class Backlog:
    """The open sweeps of one site that were planned for one executor and the model it asks.

    What was read of the log is remembered: a sweep that has ended stays so.
    """

    house: House
    site: str
    executor: Executor = PLAN
    read: Position = START
    sweeps: list[SweepPlanned] = field(default_factory=list)

    def refill(self, queue: RolloutQueue) -> int:
        """Put a job for each spec that was planned, has not ended and has none; how many those were.

        While a controller works on the site nothing is put: it plays what it has planned.
        """
        if is_controlled(self.house.engine, self.site):
            return 0
        return queue.put(self.unended())

    def unended(self) -> tuple[Ticket, ...]:
        """What is still to be played, in the order it was planned."""
        views = self.house.views()
        for recorded in self.house.store.read(after=self.read, upto=views.upto, types=["SweepPlanned"]):
            event = recorded.event
            if isinstance(event, SweepPlanned) and event.environment == self.site and plays(self.executor, event):
                self.sweeps.append(event)
        self.read = views.upto
        waiting = [(sweep, _unended(views, sweep)) for sweep in self.sweeps]
        self.sweeps = [sweep for sweep, found in waiting if found]
        return tuple(ticket for _, found in waiting for ticket in found)


def _unended(views: Views, sweep: SweepPlanned) -> list[Ticket]:
    prefix = f"{sweep.sweep}__"
    done = ended(views, prefix)
    return [
        ticket
        for ticket in tickets(sweep)
        if ticket.spec not in done and (ticket.spec.startswith(prefix) or not _has_ended(views, ticket.spec))
    ]


def _has_ended(views: Views, run: str) -> bool:
    state = views.get(RUNS, run)
    return state is not None and state.is_ended
