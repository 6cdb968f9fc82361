"""Job manager that lets only the worker that holds a job finish or retry it.

A worker that was declared lost and wakes up may try to finish jobs that were redelivered to other workers. And a worker
that lost its connection while it fetched a job may hold one that it never received.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from .outages import PatientConnector

_HELD = """(SELECT id FROM procrastinate_jobs WHERE id = %(id)s AND coalesce(worker_id, %(worker)s) = %(worker)s
    AND attempts = %(attempts)s AND status = 'doing' FOR UPDATE) AS held"""
_FINISH = f"SELECT procrastinate_finish_job_v1(held.id, %(status)s, %(delete)s) FROM {_HELD}"  # noqa: S608
_NOT_RECEIVED = """UPDATE procrastinate_jobs SET status = 'todo'
    WHERE worker_id = %(worker)s AND status = 'doing' AND NOT id = ANY(%(held)s)"""
_STALLED = """SELECT * FROM procrastinate_prune_stalled_workers_v1(%(after_s)s)
    WHERE pg_postmaster_start_time() < now() - make_interval(secs => %(after_s)s)"""
_AGAIN = f"SELECT procrastinate_retry_job_v2(held.id, %(at)s, %(priority)s, %(queue)s, %(lock)s) FROM {_HELD}"  # noqa: S608


class HeldJobs(JobManager):
    """The queue's job manager; it ignores requests for jobs that the worker no longer holds. For one worker."""

    def __init__(self, connector: PatientConnector) -> None:
        super().__init__(connector)
        self._patient = connector
        self._seen = connector.reconnects
        self._held: set[int] = set()

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Fetch the next job. After a lost connection, first put back what was fetched and never received."""
        if self._patient.reconnects > self._seen:
            self._seen = self._patient.reconnects
            await self.connector.execute_query_async(_NOT_RECEIVED, worker=worker_id, held=sorted(self._held))
        job = await super().fetch_job(queues, worker_id)
        if job is not None and job.id is not None:
            self._held.add(job.id)
        return job

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:
        """Forget lost workers; none while the server may have missed their heartbeats because it has just started."""
        rows = await self.connector.execute_query_all_async(_STALLED, after_s=seconds_since_heartbeat)
        return [row["worker_id"] for row in rows]

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001 the base's signature
        """Finish a job if its worker still holds it."""
        await self.connector.execute_query_async(_FINISH, status=status.value, delete=delete_job, **delivery_of(job))
        self._held.discard(job.id or 0)

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Requeue a job if its worker still holds it."""
        asked = {"at": retry_at, "priority": priority, "queue": queue, "lock": lock}
        await self.connector.execute_query_async(_AGAIN, **asked, **delivery_of(job))
        self._held.discard(job.id or 0)


def delivery_of(job: Job) -> dict[str, int | None]:
    """Parameters that distinguish this delivery of a job from a later one."""
    return {"id": job.id, "worker": job.worker_id, "attempts": job.attempts}
