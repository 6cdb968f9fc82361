"""Pending work on a site, read from the log: specs to play, and ended sweeps to learn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.executors.executor import Executor
from agents.rollouts.dispatching.queue import JobTicket, RolloutQueue, tickets
from agents.rollouts.play import PLAN
from eventlog.disowned import read_in_force
from eventlog.events import SweepPlanned
from eventlog.store import START, Position
from projections.engine.views import Views
from projections.runs import RUNS

from ..house import House
from ..locks import is_controlled
from ..queries.runs import ended_runs
from ..queries.sweeps import open_sweeps, sweeps_on
from .executors import plays


@dataclass(slots=True)
class Backlog:
    """Sweeps of one site planned for one executor and model: open ones (`sweeps`) and ended ones (`over`).

    Reads the log incrementally, and again from its start where events were disowned meanwhile (`gone`): what was read
    may rest on them. `learn` is called once for each ended sweep, or again after that; it must be idempotent. While
    `may_learn` returns False, these sweeps wait.
    """

    house: House
    site: str
    executor: Executor = PLAN
    learn: Callable[[SweepPlanned], None] = lambda _sweep: None
    may_learn: Callable[[], bool] = lambda: True
    read: Position = START
    sweeps: list[SweepPlanned] = field(default_factory=list)
    over: list[SweepPlanned] = field(default_factory=list)
    gone: frozenset[Position] = frozenset()

    def refill(self, queue: RolloutQueue) -> int:
        """Queue a job for each pending spec without one, then learn from ended sweeps. Returns the number of new jobs.

        Does nothing while a controller works on the site, because the controller plays its sweeps itself.
        """
        if is_controlled(self.house.engine, self.site):
            return 0
        added = queue.put(self.pending_tickets())
        while self.over and not is_controlled(self.house.engine, self.site) and self.may_learn():
            if self._forget_disowned():
                added += queue.put(self.pending_tickets())
                continue
            self.learn(self.over[0])
            del self.over[0]  # not before: the connection may be lost meanwhile
        return added

    def pending_tickets(self) -> tuple[JobTicket, ...]:
        """Jobs of pending specs, in the order in which they were planned."""
        self._forget_disowned()
        views = self.house.views()
        names = sweeps_on(views, self.site).open
        known = (*self.sweeps, *self._new_plans(views))
        self.sweeps = [event for event in known if event.sweep in names and plays(self.executor, event)]
        self.read = views.upto
        waiting = [(sweep, _pending_tickets(views, sweep)) for sweep in self.sweeps]
        self.sweeps = [sweep for sweep, found in waiting if found]
        ended = [sweep for sweep, found in waiting if not found]
        self.over += ended
        return tuple(ticket for _, found in waiting for ticket in found)

    def _forget_disowned(self) -> bool:
        """Forget all that was read if events were disowned since; True if so."""
        before, self.gone = self.gone, self.house.store.disowned_positions()
        if self.gone == before:
            return False
        self.read = START
        self.sweeps.clear()
        self.over.clear()
        return True

    def _new_plans(self, views: Views) -> Sequence[SweepPlanned]:
        """Plans made on the site since the last reading; at first, the plans of the open sweeps."""
        if self.read == START:
            return open_sweeps(self.house.store, views, self.site)
        found = read_in_force(self.house.store, after=self.read, upto=views.upto, types=["SweepPlanned"])
        events = [(recorded.stream, recorded.event) for recorded in found]
        return [
            event
            for stream, event in events
            if isinstance(event, SweepPlanned) and event.environment == self.site and stream == f"sweep/{event.sweep}"
        ]


def _pending_tickets(views: Views, sweep: SweepPlanned) -> list[JobTicket]:
    prefix = f"{sweep.sweep}__"
    done = ended_runs(views, prefix)
    return [
        ticket
        for ticket in tickets(sweep)
        if ticket.spec not in done and (ticket.spec.startswith(prefix) or not _has_ended(views, ticket.spec))
    ]


def _has_ended(views: Views, run: str) -> bool:
    state = views.get(RUNS, run)
    return state is not None and state.is_ended
