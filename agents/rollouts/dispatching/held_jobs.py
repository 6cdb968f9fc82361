"""Job manager that lets only the worker that holds a job finish or retry it.

A worker that was declared lost and wakes up may try to finish jobs that were redelivered to other workers, and one that
has put a job back may finish that delivery when it holds the next one. And a worker that lost its connection while it
fetched a job may hold one that it never received.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from .outages import PatientConnector

_HELD = """(SELECT id FROM procrastinate_jobs WHERE id = %(id)s AND coalesce(worker_id, %(worker)s) = %(worker)s
    AND attempts = %(attempts)s AND scheduled_at IS NOT DISTINCT FROM %(scheduled)s AND status = 'doing'
    FOR UPDATE) AS held"""
_FINISH = f"SELECT procrastinate_finish_job_v1(held.id, %(status)s, %(delete)s) FROM {_HELD}"  # noqa: S608
_NOT_RECEIVED = """UPDATE procrastinate_jobs j SET status = 'todo'
    WHERE j.worker_id = %(worker)s AND j.status = 'doing' AND NOT EXISTS (
        SELECT FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(scheduled)s::timestamptz[])
            AS held (id, attempts, scheduled)
        WHERE held.id = j.id AND held.attempts = j.attempts AND held.scheduled IS NOT DISTINCT FROM j.scheduled_at)"""
_AGAIN = f"SELECT procrastinate_retry_job_v2(held.id, %(at)s, %(priority)s, %(queue)s, %(lock)s) FROM {_HELD}"  # noqa: S608


class Delivery(NamedTuple):
    """Identity of one delivery of a job: putting a job back changes the time it is due, so a later one differs."""

    id: int | None
    worker: int | None
    attempts: int
    scheduled: datetime | None


def delivery_of(job: Job) -> Delivery:
    """The delivery in which a job was received."""
    return Delivery(job.id, job.worker_id, job.attempts, job.scheduled_at)


class HeldJobs(JobManager):
    """The queue's job manager; it ignores requests for jobs that the worker no longer holds. For one worker."""

    def __init__(self, connector: PatientConnector) -> None:
        super().__init__(connector)
        self._patient = connector
        self._seen = connector.reconnects
        self._held: set[Delivery] = set()

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Fetch the next job. After a lost connection, first put back what was fetched and never received."""
        if self._patient.reconnects > self._seen:
            self._seen = self._patient.reconnects
            await self._put_back_all_but(list(self._held), worker_id)
        job = await super().fetch_job(queues, worker_id)
        if job is not None:
            self._held.add(delivery_of(job))
        return job

    async def _put_back_all_but(self, held: list[Delivery], worker_id: int) -> None:
        which: dict[str, Any] = {
            "ids": [each.id for each in held],
            "attempts": [each.attempts for each in held],
            "scheduled": [each.scheduled for each in held],
        }
        await self.connector.execute_query_async(_NOT_RECEIVED, worker=worker_id, **which)

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:
        """Forget no worker: the time of a heartbeat alone does not say that its worker is lost."""
        del seconds_since_heartbeat
        return []

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001 the base's signature
        """Finish a job if its worker still holds it."""
        held = delivery_of(job)
        await self.connector.execute_query_async(_FINISH, status=status.value, delete=delete_job, **held._asdict())
        self._held.discard(held)

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Requeue a job if its worker still holds it."""
        asked, held = {"at": retry_at, "priority": priority, "queue": queue, "lock": lock}, delivery_of(job)
        await self.connector.execute_query_async(_AGAIN, **asked, **held._asdict())
        self._held.discard(held)
