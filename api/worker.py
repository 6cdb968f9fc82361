"""One process at the log, in any role: a runner plays rollouts of the queue, a projector keeps tables current."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal

from agents.envs.client import EnvClient
from agents.envs.errors import EnvironmentFailure
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.durable import Facts, Notice, Runner, Terms
from agents.rollouts.play import Job, Played
from agents.rollouts.queue import RolloutQueue, Ticket
from agents.rollouts.record import abandon, rollout
from agents.rollouts.state_keys import State
from eventlog.events import PromotionRule, RewardGraded, RunFinished, RunMissing, SweepPlanned
from eventlog.store import Append, Position
from projections.costs import PriceBook
from projections.views import Views

from .backlog import Backlog
from .decide import known, prices
from .errors import Unknown
from .house import House
from .playing import jobs_of

ACTOR = "worker"
_MOST_MET = 16

Role = Literal["runner", "projector"]
ROLES: tuple[Role, ...] = ("runner", "projector")


@dataclass(frozen=True, slots=True)
class Met:
    """A sweep as it was planned, with what was known and the prices in force when it was first met here."""

    sweep: SweepPlanned
    views: Views
    book: PriceBook


@dataclass(frozen=True, slots=True)
class SiteRunner:
    """Plays jobs of one site into the log. Where the site itself does not answer any more, `lost` is told."""

    house: House
    client: EnvClient
    site: str
    terms: Terms
    lost: Callable[[EnvironmentFailure], None]
    rule: PromotionRule = field(default_factory=PromotionRule)
    met: dict[str, Met] = field(default_factory=dict)

    def play(self, ticket: Ticket, state: State) -> Facts:
        """Play one spec; nothing where its run has ended. Raises where its job cannot be made or not be recorded."""
        del state  # no executor takes a profile yet
        if self._has_ended(ticket):
            return {"status": "ended before"}
        book = self._meet(ticket.sweep).book
        played = rollout(self._job(ticket), self.house.store, self.house.blobs, self.client, book, self.rule)
        facts = _facts(played)
        if facts.get("reason") == "environment_down":
            self._look_for_the_site()
        return facts

    def give_up(self, ticket: Ticket) -> None:
        """Record a run that takes too long as missing."""
        why = f"it took longer than {self.terms.timeout_s:g} s"
        abandon(self._job(ticket), self.house.store, self.house.blobs, why)

    def _look_for_the_site(self) -> None:
        try:
            self.client.health()
        except EnvironmentFailure as failure:
            self.lost(failure)

    def _has_ended(self, ticket: Ticket) -> bool:
        ends = self.house.store.read(stream=f"run/{ticket.spec}", types=["RunFinished", "RunMissing"])
        return next(ends, None) is not None

    def _job(self, ticket: Ticket) -> Job:
        met = self._meet(ticket.sweep)
        spec = known(next((spec for spec in met.sweep.specs if spec.spec_id == ticket.spec), None))
        return jobs_of(self.house, met.views, met.sweep, [spec])[0]

    def _meet(self, name: str) -> Met:
        found = self.met.get(name)
        if found is None:
            found = self._read(name)
            if len(self.met) >= _MOST_MET:
                self.met.clear()
            self.met[name] = found
        return found

    def _read(self, name: str) -> Met:
        for recorded in self.house.store.read(stream=f"sweep/{name}"):
            if isinstance(recorded.event, SweepPlanned):
                views = self.house.views()
                return Met(recorded.event, views, prices(views))
        raise Unknown(
            what="sweep", actual=name, way_out="Its job is of another log; `flywheel worker` leaves it parked."
        )


def _facts(played: Played) -> Facts:
    """What is told of a run."""
    facts: dict[str, object] = {}
    for event in played.events:
        match event:
            case RunFinished():
                facts["status"] = event.status
            case RewardGraded():
                facts |= {"passed": event.passed, "score": event.score}
            case RunMissing():
                facts |= {"status": "missing", "reason": event.reason}
            case _:
                pass
    return facts


def work(
    house: House, client: EnvClient | None, site: str, terms: Terms, tell: Callable[[Notice], None], *, follows: bool
) -> None:
    """Be a runner where there is a client of the site, and a projector where it `follows`, until SIGTERM or SIGINT.

    Rollouts under way end first. Raises WorkerLost, and EnvironmentDown where the site is gone.
    """
    asyncio.run(_work(house, client, site, terms, tell, follows=follows))


async def _work(
    house: House, client: EnvClient | None, site: str, terms: Terms, tell: Callable[[Notice], None], *, follows: bool
) -> None:
    stop, ended, loop = asyncio.Event(), Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    lost: list[EnvironmentFailure] = []

    def gone(failure: EnvironmentFailure) -> None:
        lost.append(failure)
        loop.call_soon_threadsafe(stop.set)

    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
    if client is not None:
        runner = _runner(SiteRunner(house, client, site, terms, gone), tell)
        tasks.append(asyncio.create_task(runner.run(stop)))
    if follows:
        once = terms.until_empty and client is None
        tasks.append(asyncio.create_task(asyncio.to_thread(project, house, ended, follow=not once)))
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    if client is not None:
        await asyncio.wait(tasks[:2])
    ended.set()
    for result in [*await asyncio.gather(*tasks, return_exceptions=True), *lost]:
        if isinstance(result, Exception):
            raise result


def _runner(at: SiteRunner, tell: Callable[[Notice], None]) -> Runner:
    """A runner at the site's queue. Nothing can be graded without prices: the first ones are set where none are."""
    at.house.store.append([Append("prices", (DEFAULT_PRICES,), ACTOR, expect=0, key="prices:1")])
    queue, backlog = RolloutQueue(at.house.engine, at.site), Backlog(at.house, at.site)
    return Runner(queue, at.play, at.give_up, lambda: backlog.refill(queue), tell, at.terms)


def project(house: House, ended: Event, *, follow: bool) -> None:
    """Keep every projection at the head, until told to stop; or only bring them there."""
    after = house.store.head()
    house.projector.catch_up(after)
    if follow:
        for batch in house.store.subscribe(after=after, until=lambda _: ended.is_set()):
            house.projector.catch_up(Position(batch[-1].position))
