"""Dispatch by state key out of the durable queue: any number of processes share its jobs.

The queue's lock of a session key keeps its jobs in order and apart; other jobs go to whoever has room. A process that
is lost is noticed by its heartbeat, and its jobs are given to others.
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
from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.jobs import Job as Queued

from eventlog.database import project_schema

from ..errors import WorkerLost
from .dispatch import MAX_PARALLEL, start_call
from .held_jobs import HeldJobs
from .queue import LOST, TASK, TRIES, JobTicket, RolloutQueue
from .state_keys import StateKey

SHORTEST_RESCUE_S = 4.0
"""Below this, and with the heartbeat of Terms, a worker that is only slow would be taken for lost."""
_POLL_S = 0.25
_PAUSE_S = 1.0
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

Facts = Mapping[str, object]
Kind = Literal["added", "rescued", "played", "failed", "parked", "timed_out", "unlearned"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How one process takes part. `timeout_s` is for one run; a worker is lost that is silent for `rescue_after_s`."""

    max_parallel: int = MAX_PARALLEL
    timeout_s: float = 900.0
    rescue_after_s: float = 30.0
    heartbeat_s: float = 1.0
    refill_s: float = 15.0
    until_empty: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """What has happened to a job, or to `count` of them, or to a sweep that `facts` name."""

    kind: Kind
    ticket: JobTicket | None = None
    count: int = 1
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Runner:
    """One process at the queue.

    `play` does a job and says what came of it; to play one that has ended must change nothing. `give_up` records that
    a job took too long. `refill` puts jobs that the queue lacks, and says how many. `tell` is told what happens. While
    it is not `may_play`, a job that was given out waits, which is no part of its time; told to stop, it is put back.
    """

    queue: RolloutQueue
    play: Callable[[JobTicket, StateKey], Facts]
    give_up: Callable[[JobTicket], None]
    refill: Callable[[], int]
    tell: Callable[[Notice], None]
    terms: Terms = field(default_factory=Terms)
    may_play: Callable[[], bool] = lambda: True
    worker_ids: set[int] = field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        """Do jobs until told to stop, or until none is left where the terms say so; those under way end first.

        Raises WorkerLost where the queue cannot be reached any more.
        """
        for name in ("procrastinate", "psycopg.pool"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what they would say is told as notices and errors
        app = self._app(stop)
        async with app.open_async():
            worker = asyncio.create_task(self._work(app), name="jobs")
            tending = asyncio.create_task(self._tend(), name="tending")
            stopping = asyncio.create_task(stop.wait(), name="stopping")
            tasks = {worker, tending, stopping}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            has_ended = worker.done()
            stop.set()
            for task in tasks:
                task.cancel()
            beating = asyncio.create_task(self._beat(), name="heart")
            end, trouble = await asyncio.gather(worker, tending, return_exceptions=True)
            beating.cancel()
        if isinstance(trouble, Exception):
            raise trouble
        if has_ended:
            raise WorkerLost(actual=f"{type(end).__name__} {end}" if end else "its heart stopped") from end

    async def _beat(self) -> None:
        """Be heard of while the last jobs end: the queue's own heart stops as soon as it is told to stop."""
        while True:
            await asyncio.to_thread(self.queue.beat, sorted(self.worker_ids))
            await asyncio.sleep(self.terms.heartbeat_s)

    def _app(self, stop: asyncio.Event) -> App:
        engine = self.queue.engine
        url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        schema = project_schema(engine)

        async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute(f'SET search_path = "{schema}", pg_temp')
            await connection.commit()

        app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=4, configure=configure))

        app.job_manager = HeldJobs(app.connector)

        @app.task(name=TASK, pass_context=True, retry=AtOnce())
        async def rollout(context: JobContext, /, **ids: Any) -> None:
            await self._roll(context.job, JobTicket(**ids), stop)

        return app

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

    async def _roll(self, job: Queued, ticket: JobTicket, stop: asyncio.Event) -> None:
        """Do one job. Raises what it raised, so that the queue tries it again or keeps it as parked."""
        if job.worker_id is not None:
            self.worker_ids.add(job.worker_id)
        try:
            if not await self._turn(stop):
                await asyncio.to_thread(self.queue.put_back, job)
                return
            facts = await self._play(job, ticket)
        except Exception as error:
            await self._park(job, ticket, error)
            raise
        self.tell(Notice("timed_out", ticket) if facts is None else Notice("played", ticket, facts=facts))

    async def _turn(self, stop: asyncio.Event) -> bool:
        """Wait until it may play; False where it was told to stop before."""
        while not stop.is_set():
            if await asyncio.to_thread(self.may_play):
                return not stop.is_set()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _PAUSE_S)
        return False

    async def _play(self, job: Queued, ticket: JobTicket) -> Facts | None:
        """What came of a job; None where it took too long and was given up.

        A process that was frozen finds its time over when it wakes: what was given to others meanwhile is theirs.
        """
        future = asyncio.wrap_future(start_call(self.play, ticket, ticket.state))
        done, _ = await asyncio.wait({future}, timeout=self.terms.timeout_s)
        if done:
            return future.result()
        future.cancel()  # its thread goes on; what it says is dropped
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

    async def _tend(self) -> None:
        """Free what lost workers held and put what the queue lacks, again and again; ends where nothing is left."""
        rescue_at = refill_at = monotonic()
        while True:
            if monotonic() >= rescue_at:
                await self._rescue()
                rescue_at = monotonic() + self.terms.rescue_after_s / 4
            is_empty = self.terms.until_empty and not await asyncio.to_thread(self.queue.open)
            if is_empty or monotonic() >= refill_at:
                added = await asyncio.to_thread(self.refill)
                refill_at = monotonic() + self.terms.refill_s
                if added:
                    self.tell(Notice("added", count=added))
                elif is_empty:
                    return
            await asyncio.sleep(_POLL_S if self.terms.until_empty else 1.0)

    async def _rescue(self) -> None:
        freed, parked = await asyncio.to_thread(self.queue.rescue, self.terms.rescue_after_s)
        for ticket in freed:
            self.tell(Notice("rescued", ticket))
        for ticket in parked:
            self.tell(Notice("parked", ticket, facts={"error": LOST}))


class AtOnce(BaseRetryStrategy):
    """Another try at once, TRIES in all.

    A time to come would hold up the whole session, and this machine's clock may be ahead of the database's.
    """

    def get_retry_decision(self, *, exception: BaseException, job: Queued) -> RetryDecision | None:
        """See BaseRetryStrategy."""
        del exception
        return RetryDecision(retry_at=_LONG_AGO) if job.attempts + 1 < TRIES else None
