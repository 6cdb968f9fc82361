"""Dispatch by state key from the durable queue: any number of processes share its jobs.

The queue's lock of a session key runs its jobs in order, one at a time; other jobs go to any process with a free slot.
A process without heartbeat counts as lost, and its jobs are redelivered to other processes. Where the database is away
for a while, every process keeps its jobs and goes on when it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Literal

import psycopg
from procrastinate import App, BaseRetryStrategy, JobContext, RetryDecision
from procrastinate.jobs import Job as Queued

from eventlog.database import is_connection_lost, project_schema

from ..errors import WorkerLost
from .dispatch import MAX_PARALLEL, start_call
from .heartbeats import HeartbeatWatch, watch_on
from .held_jobs import HeldJobs
from .outages import PatientConnector, ends_within, suppress_lost_connection
from .queue import LOST, TASK, TRIES, JobTicket, RolloutQueue
from .state_keys import StateKey

SHORTEST_RESCUE_S = 4.0
"""Least `rescue_after_s`: below it, and with the heartbeat of Terms, a slow worker would count as lost."""
OUTAGE_S = 900.0
"""Seconds that a worker waits for a database that does not answer."""
_FORGET_TIMES = 20
"""A worker that is lost for this many times `rescue_after_s` is forgotten."""
_POLL_S = 0.25
_PAUSE_S = 1.0
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

Facts = Mapping[str, object]
Kind = Literal[
    "added",
    "rescued",
    "played",
    "failed",
    "parked",
    "timed_out",
    "unlearned",
    "forged",
    "interrupted",
    "unreachable",
    "reached",
    "stopping",
]


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of a process. `timeout_s` limits one run; a worker without heartbeat for `rescue_after_s` is lost.

    A database that does not answer is waited for up to `outage_s` seconds. Neither limit counts that time.
    """

    max_parallel: int = MAX_PARALLEL
    timeout_s: float = 900.0
    rescue_after_s: float = 30.0
    heartbeat_s: float = 1.0
    refill_s: float = 15.0
    until_empty: bool = False
    outage_s: float = OUTAGE_S


@dataclass(frozen=True, slots=True)
class Notice:
    """A change of one job, of `count` jobs, or of a sweep named in `facts`; `stopping` is one of the process."""

    kind: Kind
    ticket: JobTicket | None = None
    count: int = 1
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Runner:
    """One process that executes jobs of the queue.

    `play` executes a job and returns its facts; for a job that has ended it must change nothing. `give_up` records a
    job that timed out. `refill` adds the jobs that the queue lacks and returns their number. `tell` receives notices.
    While `may_play` returns False, a delivered job waits, outside its timeout; if stopped meanwhile, it is put back.
    `limit_s` gives the time limit of a job (None: that of the terms for every one).
    """

    queue: RolloutQueue
    play: Callable[[JobTicket, StateKey], Facts]
    give_up: Callable[[JobTicket], None]
    refill: Callable[[], int]
    tell: Callable[[Notice], None]
    terms: Terms = field(default_factory=Terms)
    may_play: Callable[[], bool] = lambda: True
    limit_s: Callable[[JobTicket], float] | None = None
    worker_ids: set[int] = field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        """Execute jobs until stopped, or until none is left if `until_empty`; running jobs end first.

        Raises WorkerLost if the queue cannot be reached any more.
        """
        for name in ("procrastinate", "psycopg.pool"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # notices and errors report the same
        asyncio.get_running_loop().set_exception_handler(_report_task_error)
        app = self._app(stop)
        async with app.open_async():
            worker = asyncio.create_task(self._work(app), name="jobs")
            filling = asyncio.create_task(self._keep_filled(), name="filling")
            rescuing = asyncio.create_task(self._keep_rescuing(), name="rescuing")
            stopping = asyncio.create_task(stop.wait(), name="stopping")
            tasks = {worker, filling, rescuing, stopping}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            has_ended = worker.done()
            stop.set()
            for task in tasks:
                task.cancel()
            beating = asyncio.create_task(self._beat(), name="heart")
            end, *troubles = await asyncio.gather(worker, filling, rescuing, return_exceptions=True)
            beating.cancel()
        for trouble in troubles:
            if isinstance(trouble, Exception):
                raise trouble
        if has_ended:
            raise WorkerLost(actual=f"{type(end).__name__} {end}" if end else "its heartbeat stopped") from end

    async def _beat(self) -> None:
        """Send heartbeats while the last jobs end: the queue's own heartbeat stops as soon as it is told to stop."""
        while True:
            with suppress_lost_connection():
                await asyncio.to_thread(self.queue.beat, sorted(self.worker_ids))
            await asyncio.sleep(self.terms.heartbeat_s)

    def _app(self, stop: asyncio.Event) -> App:
        engine = self.queue.engine
        url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        schema = project_schema(engine)

        async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute(f'SET search_path = "{schema}", pg_temp')
            await connection.commit()

        # The pool must notice an outage, and its end, before other workers take this one for lost.
        pool = {"conninfo": url, "min_size": 1, "max_size": 4, "configure": configure, "timeout": SHORTEST_RESCUE_S / 2}
        connector = PatientConnector(self.terms.outage_s, stop.is_set, self._tell_outage, **pool)
        app = App(connector=connector)
        app.job_manager = HeldJobs(connector)

        @app.task(name=TASK, pass_context=True, retry=AtOnce())
        async def rollout(context: JobContext, /, **ids: Any) -> None:
            await self._roll(context.job, JobTicket(**ids), stop, connector.seconds_away)

        return app

    def _tell_outage(self, error: str | None) -> None:
        facts = {"error": error, "outage_s": self.terms.outage_s}
        self.tell(Notice("reached") if error is None else Notice("unreachable", facts=facts))

    async def _work(self, app: App) -> None:
        await app.run_worker_async(
            queues=[self.queue.name],
            concurrency=self.terms.max_parallel,
            wait=True,
            fetch_job_polling_interval=_POLL_S,
            delete_jobs="successful",
            install_signal_handlers=False,
            update_heartbeat_interval=self.terms.heartbeat_s,
            stalled_worker_timeout=self.terms.rescue_after_s,
        )

    async def _roll(self, job: Queued, ticket: JobTicket, stop: asyncio.Event, away: Callable[[], float]) -> None:
        """Execute one job. Raises its error again, so that the queue retries or parks the job.

        A job that lost its connection to the database is put back, and that counts as no attempt.
        """
        if job.worker_id is not None:
            self.worker_ids.add(job.worker_id)
        try:
            if not await self._turn(stop):
                await self._put_back(job)
                return
            facts = await self._play(job, ticket, away)
        except Exception as error:
            if is_connection_lost(error):
                await self._put_back(job)
                self.tell(Notice("interrupted", ticket))
                return
            await self._park(job, ticket, error)
            raise
        self.tell(Notice("timed_out", ticket) if facts is None else Notice("played", ticket, facts=facts))

    async def _put_back(self, job: Queued) -> None:
        """Put a job back; asked again where the connection is lost meanwhile. Without effect the second time."""
        for _ in range(TRIES - 1):
            with suppress_lost_connection():
                await asyncio.to_thread(self.queue.put_back, job)
                return
            await asyncio.sleep(_PAUSE_S)
        await asyncio.to_thread(self.queue.put_back, job)

    async def _turn(self, stop: asyncio.Event) -> bool:
        """Wait until `may_play` returns True; False if stopped before."""
        while not stop.is_set():
            if await asyncio.to_thread(self.may_play):
                return not stop.is_set()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _PAUSE_S)
        return False

    async def _play(self, job: Queued, ticket: JobTicket, away: Callable[[], float]) -> Facts | None:
        """Facts of a played job; None if it timed out and was given up.

        A process that was suspended finds its job timed out; a job that was redelivered meanwhile is not given up.
        """
        limit_s = self.terms.timeout_s if self.limit_s is None else await asyncio.to_thread(self.limit_s, ticket)
        future = asyncio.wrap_future(start_call(self.play, ticket, ticket.state))
        if await ends_within(future, limit_s, away):
            return future.result()
        future.cancel()  # its thread goes on; its result is dropped
        if not await asyncio.to_thread(self.queue.holds, job):
            return {"status": "given to others"}
        await asyncio.to_thread(self.give_up, ticket)
        return None

    async def _park(self, job: Queued, ticket: JobTicket, error: Exception) -> None:
        said = {"error": f"{type(error).__name__}: {error}"}
        if job.attempts + 1 < TRIES:
            self.tell(Notice("failed", ticket, facts=said))
        elif job.id is not None:
            await asyncio.to_thread(self.queue.note_error, job.id, said["error"])
            self.tell(Notice("parked", ticket, facts=said))

    async def _keep_filled(self) -> None:
        """Refill the queue periodically; returns if `until_empty` and no job is left."""
        refill_at = monotonic()
        while True:
            with suppress_lost_connection():
                is_empty = self.terms.until_empty and not await asyncio.to_thread(self.queue.open)
                if is_empty or monotonic() >= refill_at:
                    added = await asyncio.to_thread(self.refill)
                    refill_at = monotonic() + self.terms.refill_s
                    if added:
                        self.tell(Notice("added", count=added))
                    elif is_empty and not await asyncio.to_thread(self.queue.open):  # nor did another worker add jobs
                        return
            await asyncio.sleep(_POLL_S if self.terms.until_empty else 1.0)

    async def _keep_rescuing(self) -> None:
        """Rescue jobs of lost workers periodically, also while another process blocks the refill."""
        watch = HeartbeatWatch()
        while True:
            read_before, watch = watch, HeartbeatWatch()  # which stays where the connection is lost
            with suppress_lost_connection():
                watch = await asyncio.to_thread(self._read_on, read_before)
                freed, parked = await asyncio.to_thread(
                    self.queue.rescue, watch.lost_workers(self.terms.rescue_after_s)
                )
                for ticket in freed:
                    self.tell(Notice("rescued", ticket))
                for ticket in parked:
                    self.tell(Notice("parked", ticket, facts={"error": LOST}))
            await asyncio.sleep(self.terms.rescue_after_s / 4)

    def _read_on(self, watch: HeartbeatWatch) -> HeartbeatWatch:
        read, after_s = self.queue.heartbeats(), self.terms.rescue_after_s
        watch = watch_on(watch, read, monotonic(), longest_gap_s=after_s / 2)
        self.queue.forget_workers(watch.lost_workers(_FORGET_TIMES * after_s))
        return watch


def _report_task_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what a task of the queue raised and nobody asked for, unless it is the outage that was told already."""
    if not is_connection_lost(context.get("exception")):
        loop.default_exception_handler(context)


class AtOnce(BaseRetryStrategy):
    """Retry at once, up to TRIES attempts in all.

    A retry in the future would block the whole session, and this machine's clock may be ahead of the database's.
    """

    def get_retry_decision(self, *, exception: BaseException, job: Queued) -> RetryDecision | None:
        """See BaseRetryStrategy."""
        del exception
        return RetryDecision(retry_at=_LONG_AGO) if job.attempts + 1 < TRIES else None
