"""Jobs end in the queue by the hand that holds them.

A worker that was taken for lost, and wakes up, comes to the end of jobs that others play meanwhile or have played.
"""

from __future__ import annotations

from datetime import datetime

from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

_HELD = """(SELECT id FROM procrastinate_jobs WHERE id = %(job)s AND coalesce(worker_id, %(worker)s) = %(worker)s
    AND attempts = %(attempts)s AND status = 'doing' FOR UPDATE) AS held"""
_FINISH = f"SELECT procrastinate_finish_job_v1(held.id, %(status)s, %(delete)s) FROM {_HELD}"  # noqa: S608
_AGAIN = f"SELECT procrastinate_retry_job_v2(held.id, %(at)s, %(priority)s, %(queue)s, %(lock)s) FROM {_HELD}"  # noqa: S608


class HeldJobs(JobManager):
    """The queue's job manager; what a worker does not hold any more is left as it is."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001 as it is there
        """End a job that is still its worker's."""
        await self.connector.execute_query_async(_FINISH, status=status.value, delete=delete_job, **_as_given(job))

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Give a job that is still its worker's out again."""
        asked = {"at": retry_at, "priority": priority, "queue": queue, "lock": lock}
        await self.connector.execute_query_async(_AGAIN, **asked, **_as_given(job))


def _as_given(job: Job) -> dict[str, int | None]:
    """What tells a job in the hands of one worker from the same job given out again."""
    return {"job": job.id, "worker": job.worker_id, "attempts": job.attempts}
