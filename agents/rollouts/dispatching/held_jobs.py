"""Job manager that lets only the worker that holds a job finish or retry it.

A worker that was declared lost and wakes up may try to finish jobs that were redelivered to other workers.
"""

from __future__ import annotations

from datetime import datetime

from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

_HELD = """(SELECT id FROM procrastinate_jobs WHERE id = %(id)s AND coalesce(worker_id, %(worker)s) = %(worker)s
    AND attempts = %(attempts)s AND status = 'doing' FOR UPDATE) AS held"""
_FINISH = f"SELECT procrastinate_finish_job_v1(held.id, %(status)s, %(delete)s) FROM {_HELD}"  # noqa: S608
_AGAIN = f"SELECT procrastinate_retry_job_v2(held.id, %(at)s, %(priority)s, %(queue)s, %(lock)s) FROM {_HELD}"  # noqa: S608


class HeldJobs(JobManager):
    """The queue's job manager; it ignores requests for jobs that the worker no longer holds."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001 the base's signature
        """Finish a job if its worker still holds it."""
        await self.connector.execute_query_async(_FINISH, status=status.value, delete=delete_job, **delivery_of(job))

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


def delivery_of(job: Job) -> dict[str, int | None]:
    """Parameters that distinguish this delivery of a job from a later one."""
    return {"id": job.id, "worker": job.worker_id, "attempts": job.attempts}
