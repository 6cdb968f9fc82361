"""A worker process with one or more roles.

A runner plays queued rollouts and learns from ended sweeps, a projector keeps projections current, a controller runs
the fast loop, a reactor loads each champion into a model server.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any, Literal

from agents.envs.environment import Environment
from agents.envs.errors import EnvironmentFailure
from agents.executors.by_weights import refuse_unserved
from agents.executors.executor import Executor
from agents.models.model import Model
from agents.rollouts.dispatching.durable import Facts, Notice, Runner, Terms
from agents.rollouts.dispatching.queue import JobTicket, RolloutQueue
from agents.rollouts.dispatching.state_keys import StateKey
from agents.rollouts.play import PLAN, Job, Means
from agents.rollouts.record import stopwatch
from eventlog.errors import FlywheelError
from eventlog.events import PairedRule, PromotionRule, SweepPlanned
from eventlog.store import Position
from projections.engine.views import Views

from ..environments.admission import first_admission, see_admission
from ..environments.connect import Placed
from ..errors import PlayedInVain
from ..house import House
from ..locks import admitting_alone, is_controlled
from ..queries.costs import present_prices
from ..queries.facts import require
from ..reporter import Reporter
from .backlog import Backlog
from .executors import inspector_of, refuse_other, worker_of
from .jobs import give_up, jobs_of, play_one, took_longer
from .learner import Learner
from .missing import facts_of_end
from .plan import set_first_prices
from .projector import project
from .step_checks import Checking, check_nothing
from .terms import forget_run, means_of_run, time_limit_of

ACTOR = "worker"
PAIRED = PairedRule.current()
_MOST_MET = 16
_MOST_UNANSWERED = 3

Role = Literal["runner", "projector", "controller", "reactor"]
ROLES: tuple[Role, ...] = ("runner", "projector", "controller", "reactor")
Controlling = Callable[[Callable[[], bool]], str]
"""Runs the fast loop until it is done or the given function returns True. Returns why it stopped."""
Reacting = Callable[[Event, bool], None]
"""Loads champions into a model server until the event is set; only the present one if the second argument is False."""
Running = Callable[[Callable[[FlywheelError], None]], Runner]
"""Creates the runner, which calls the given function when its next runs would be missing as well."""


@dataclass(frozen=True, slots=True)
class Met:
    """A sweep as first read by this worker: its plans, what was disowned, and the views and means at that time."""

    planned: tuple[SweepPlanned, ...]
    gone: frozenset[Position]
    views: Views
    means: Means

    def holds(self, spec_id: str) -> bool:
        """True if a spec is planned."""
        return any(spec.spec_id == spec_id for event in self.planned for spec in event.specs)

    def job(self, house: House, spec_id: str) -> Job:
        """Job of one of its specs. Raises FactMissing."""
        found = ((event, spec) for event in self.planned for spec in event.specs if spec.spec_id == spec_id)
        event, spec = require(next(found, None))
        return jobs_of(house, self.views, event, [spec])[0]


@dataclass(frozen=True, slots=True)
class SiteRunner:
    """Plays queued jobs of one site. Calls `lost` when a failure would make all following runs missing as well."""

    house: House
    client: Environment
    site: str
    terms: Terms
    lost: Callable[[FlywheelError], None]
    executor: Executor = PLAN
    checking: Checking = check_nothing
    advisor: Model | None = None
    rule: PromotionRule = PAIRED
    met: dict[str, Met] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)

    def play(self, ticket: JobTicket, state: StateKey) -> Facts:
        """Play one spec, unless its run has ended, or the log plans no such spec (its plan may have been disowned).

        Raises if its job cannot be built, served or recorded.
        """
        if self._has_ended(ticket):
            forget_run(self.house, ticket)
            return {"status": "ended before"}
        met = self._meet(ticket)
        if met is None:
            return {"status": "not planned"}
        refuse_other(self.executor, met.planned[0], f"Start `{worker_of(met.planned[0])} --retry-parked`.")
        refuse_unserved(self.executor, (met.planned[0].artifact,))
        job = met.job(self.house, ticket.spec)
        with means_of_run(self.house, met.means, ticket, state) as means:
            facts = facts_of_end(play_one(self.house, means, job, state))
        self._note_missing(job, facts)
        return facts

    def may_play(self) -> bool:
        """True if workers may play on the site, because no controller is working on it."""
        return not is_controlled(self.house.engine, self.site)

    def give_up(self, ticket: JobTicket) -> None:
        """Record a run that takes too long as missing, unless its plan was disowned meanwhile."""
        met = self._meet(ticket)
        if met is not None:
            give_up(self.house, met.job(self.house, ticket.spec), self.executor, took_longer(self.limit_s(ticket)))
        forget_run(self.house, ticket)

    def limit_s(self, ticket: JobTicket) -> float:
        """Seconds that a run may take."""
        return time_limit_of(self.house, ticket, self.terms.timeout_s)

    def _note_missing(self, job: Job, facts: Facts) -> None:
        """Check why a run is missing. Calls `lost` if the cause would also affect the following runs."""
        why = f"{job.run} is missing for {facts.get('reason')}, {facts.get('detail')}"
        match facts.get("reason"):
            case "model_down":
                self.unanswered.append(job.run)
                if len(self.unanswered) >= _MOST_UNANSWERED:
                    self.lost(PlayedInVain(site=self.site, actual=f"{why}; so are the runs before it"))
                return
            case "environment_refused" | "contract_broken":
                self.lost(PlayedInVain(site=self.site, actual=why))
            case "environment_down" | "platform_error":
                self._look_for_the_site(job)
            case _:
                pass
        self.unanswered.clear()

    def _look_for_the_site(self, job: Job) -> None:
        task = job.template.oracle_task_id
        try:
            graded = {told.task_id for told in self.client.health().tasks}
        except EnvironmentFailure as failure:
            self.lost(failure)
        else:
            if task not in graded:
                self.lost(PlayedInVain(site=self.site, actual=f"it grades no task {task!r}"))

    def _has_ended(self, ticket: JobTicket) -> bool:
        ends = self.house.store.read(stream=f"run/{ticket.spec}", types=["RunFinished", "RunMissing"])
        return next(ends, None) is not None

    def _meet(self, ticket: JobTicket) -> Met | None:
        """The sweep of a ticket, read again after an extension or a disowning; None if it plans no such spec."""
        found, gone = self.met.get(ticket.sweep), self.house.store.disowned_positions()
        if found is None or found.gone != gone or not found.holds(ticket.spec):
            found = self._read(ticket.sweep, gone)
            if len(self.met) >= _MOST_MET:
                self.met.clear()
            self.met[ticket.sweep] = found
        return found if found.holds(ticket.spec) else None

    def _read(self, name: str, gone: frozenset[Position]) -> Met:
        events = self.house.store.read(stream=f"sweep/{name}", types=["SweepPlanned"])
        in_force = (recorded.event for recorded in events if recorded.position not in gone)
        planned = tuple(event for event in in_force if isinstance(event, SweepPlanned))
        views = self.house.views()
        watching, operations = self.checking(planned[0].suite if planned else None)
        means = Means(
            self.client,
            present_prices(views),
            self.rule,
            stopwatch,
            self.executor,
            watching,
            inspector=inspector_of(self.executor),
            advisor=self.advisor,
            operations=operations,
        )
        return Met(planned, gone, views, means)


def see_site(house: House, placed: Placed, site: str, reporter: Reporter) -> None:
    """Check that the site is the expected one and admitted. Raises OtherSite, NotAdmitted, LockLost."""
    with admitting_alone(house, site) as own:
        see_admission(own, placed.environment, site, first_admission(placed, reporter))


def work(
    house: House,
    client: Environment | None,
    site: str,
    terms: Terms,
    tell: Callable[[Notice], None],
    executor: Executor = PLAN,
    *,
    follows: bool,
    checking: Checking = check_nothing,
    advisor: Model | None = None,
    rule: PromotionRule = PAIRED,
    controlling: Controlling | None = None,
    reacting: Reacting | None = None,
    give_up: Callable[[], None] = lambda: None,
) -> None:
    """Run as runner if `client` is given, as projector if `follows`, as controller and reactor if those are given.

    `rule` is the promotion rule of pieces that the runner proposes or captures. Stops on SIGTERM or SIGINT, or when the
    controller is done; current runs end first, and `give_up` ends the house's patience with a lost database. Raises
    WorkerLost, OutageTooLong, EnvironmentDown if the site is gone, PlayedInVain, and what a controller raises.
    """

    def runner_at(at: Environment, lost: Callable[[FlywheelError], None]) -> Runner:
        return _runner(SiteRunner(house, at, site, terms, lost, executor, checking, advisor, rule), tell)

    running = None if client is None else partial(runner_at, client)
    beside: list[Reacting] = [] if reacting is None else [reacting]
    if follows:
        beside.append(lambda ended, follow: project(house, ended, follow=follow))
    working = _work(running, tell, give_up, is_once=terms.until_empty, beside=beside, controlling=controlling)
    try:
        asyncio.run(working)
    finally:
        give_up()


async def _work(
    running: Running | None,
    tell: Callable[[Notice], None],
    give_up: Callable[[], None],
    *,
    is_once: bool,
    beside: Sequence[Reacting],
    controlling: Controlling | None,
) -> None:
    stop, ended, loop = asyncio.Event(), Event(), asyncio.get_running_loop()
    stop_at_signals(stop, tell)
    lost: list[FlywheelError] = []

    def report_loss(failure: FlywheelError) -> None:
        lost.append(failure)
        loop.call_soon_threadsafe(stop.set)

    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
    if running is not None:
        tasks.append(asyncio.create_task(running(report_loss).run(stop)))
    if controlling is not None:
        tasks.append(asyncio.create_task(asyncio.to_thread(controlling, stop.is_set)))
    follow = not is_once or running is not None
    tasks.extend(asyncio.create_task(asyncio.to_thread(each, ended, follow)) for each in beside)
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    give_up()
    if running is not None:
        await asyncio.wait(tasks[:2])
    ended.set()
    for result in [*await asyncio.gather(*tasks, return_exceptions=True), *lost]:
        if isinstance(result, Exception):
            raise result


def stop_at_signals(stop: asyncio.Event, tell: Callable[[Notice], None]) -> None:
    """Set `stop` at SIGTERM or Ctrl-C. Another Ctrl-C ends the process at once, which is as safe as `kill -9`."""
    loop = asyncio.get_running_loop()

    def begin_to_stop() -> None:
        if not loop.remove_signal_handler(signal.SIGINT):
            return  # it was told before
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        tell(Notice("stopping"))
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, begin_to_stop)


def _runner(at: SiteRunner, tell: Callable[[Notice], None]) -> Runner:
    """Create a runner at the site's queue. Appends default prices if there are none, since grading needs prices."""
    set_first_prices(at.house, ACTOR)
    queue = RolloutQueue(at.house.engine, at.site)
    learner = Learner(at.house, at.rule, tell)
    backlog = Backlog(at.house, at.site, at.executor, learner.learn, learner.may_learn)
    refill = partial(backlog.refill, queue)
    return Runner(queue, at.play, at.give_up, refill, tell, at.terms, at.may_play, at.limit_s)
