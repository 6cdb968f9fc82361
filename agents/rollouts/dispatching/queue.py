"""The durable queue of rollouts: one job per spec, in the database of the log.

A job holds ids only; its content is read from the log. Lost jobs can be rebuilt, because the log holds which specs were
planned and have not ended. All writers of jobs take one lock, so a spec has at most one job, and the jobs of a session
are in the order of their specs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from procrastinate import App, SyncPsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job as Queued
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from eventlog.append_rule import judge_group
from eventlog.appending import Cursor, by_call
from eventlog.codec import encode_append
from eventlog.database import database_error, project_schema, single_statements
from eventlog.events import SweepPlanned
from eventlog.postgres import LockingSession
from eventlog.store import Acceptance, Append, Committed, Rejected

from ..errors import SessionBusy
from .heartbeats import Heartbeats
from .held_jobs import delivery_of
from .state_keys import StateKey, independent, plain_name, session

TASK = "rollout"
TRIES = 3
"""Attempts before a job is parked; an error and the loss of the worker end an attempt."""
LOST = f"its worker was lost on the last of {TRIES} tries"
_LONGEST_STEM = 20  # with prefix and digest it is the name of a channel, of at most 63 bytes

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/queue', 0))"
_THERE = """SELECT args->>'sweep', args->>'spec' FROM procrastinate_jobs
    WHERE task_name = %s AND args->>'sweep' = ANY(%s)"""
_OPEN = text("""SELECT count(*) FROM procrastinate_jobs
    WHERE queue_name = :queue AND status IN ('todo', 'doing')""")
_CANCEL = text("""SELECT procrastinate_cancel_job_v1(id, false, false) FROM procrastinate_jobs
    WHERE queue_name = :queue AND args->>'sweep' = :sweep AND status = 'todo'
    AND (CAST(:spec AS text) IS NULL OR args->>'spec' = :spec) ORDER BY id FOR UPDATE""")
_IN_SESSION = """SELECT args->>'spec' FROM procrastinate_jobs
    WHERE queue_name = %s AND lock = %s AND status IN ('todo', 'doing') ORDER BY id LIMIT 1"""
_SERVER = text("""SELECT concat_ws(' ', pg_postmaster_start_time(), stats_reset)
    FROM pg_stat_bgwriter""")  # a server that has crashed resets its statistics
_BEATS = text("SELECT id, last_heartbeat FROM procrastinate_workers")
_LISTED = "(SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:beats AS timestamptz[])))"
_LOST = text(f"""SELECT j.id, j.args, j.attempts FROM procrastinate_jobs j
    LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
    WHERE j.queue_name = :queue AND j.status = 'doing' AND (w.id IS NULL OR (w.id, w.last_heartbeat) IN {_LISTED})
    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED""")  # noqa: S608
_FORGET_WORKERS = text(f"DELETE FROM procrastinate_workers WHERE (id, last_heartbeat) IN {_LISTED}")  # noqa: S608
_SOONER = text("""UPDATE procrastinate_jobs SET scheduled_at = now()
    WHERE queue_name = :queue AND status = 'todo' AND scheduled_at > now() + interval '2 seconds'""")
_AGAIN = text("SELECT procrastinate_retry_job_v2(:id, NULL, NULL, NULL, NULL)")
# A forgotten worker holds its job until redelivery.
_HELD = """FROM procrastinate_jobs WHERE id = :id AND coalesce(worker_id, :worker) = :worker AND attempts = :attempts
    AND scheduled_at IS NOT DISTINCT FROM :scheduled AND status = 'doing'"""
_HOLDS = text(f"SELECT EXISTS (SELECT {_HELD})")
_PUT_BACK = text(f"""UPDATE procrastinate_jobs SET status = 'todo', scheduled_at = now() + interval '1 second'
    WHERE id IN (SELECT id {_HELD} FOR UPDATE)""")  # noqa: S608
_BEAT = text("SELECT procrastinate_update_heartbeat_v1(id) FROM procrastinate_workers WHERE id = ANY(:ids) FOR UPDATE")
_FAIL = text("SELECT procrastinate_finish_job_v1(:id, 'failed', false)")
_PARK = text("""INSERT INTO parked_jobs (job, error) VALUES (:id, :error)
    ON CONFLICT (job) DO UPDATE SET error = excluded.error, at = now()""")
_PARKED = text("""SELECT j.id, j.args, coalesce(p.error, '') AS error FROM procrastinate_jobs j
    LEFT JOIN parked_jobs p ON p.job = j.id WHERE j.queue_name = :queue AND j.status = 'failed' ORDER BY j.id""")
_PARKED_SPEC = text("""SELECT id FROM procrastinate_jobs WHERE queue_name = :queue AND status = 'failed'
    AND args->>'sweep' = :sweep AND args->>'spec' = :spec ORDER BY id LIMIT 1 FOR UPDATE""")
_FROM_NONE = text("UPDATE procrastinate_jobs SET attempts = 0, scheduled_at = now() WHERE id = :id")


@dataclass(frozen=True, slots=True)
class JobTicket:
    """The ids of one job. `state_key` names its session, None for an independent spec."""

    sweep: str
    spec: str
    state_key: str | None = None

    @property
    def state(self) -> StateKey:
        """The resolved state key."""
        return independent(self.spec) if self.state_key is None else session(self.state_key)

    @property
    def args(self) -> dict[str, Any]:
        """The job's arguments."""
        return {"sweep": self.sweep, "spec": self.spec, "state_key": self.state_key}


@dataclass(frozen=True, slots=True)
class Parked:
    """A job that is not retried automatically, and the error of its last attempt."""

    ticket: JobTicket
    error: str


def tickets(sweep: SweepPlanned) -> tuple[JobTicket, ...]:
    """One ticket for each spec of a sweep, in order."""
    return tuple(JobTicket(sweep.sweep, spec.spec_id, spec.state_key) for spec in sweep.specs)


@dataclass(frozen=True, slots=True)
class RolloutQueue:
    """The job queue of one environment in the engine's project."""

    engine: Engine
    environment: str

    @property
    def name(self) -> str:
        """Name of the queue, different in every project, because all projects of a database share its channels."""
        return plain_name(f"{self.environment}@{project_schema(self.engine)}", _LONGEST_STEM)

    def plan(
        self,
        append: Append,
        planned: Sequence[JobTicket],
        further: Sequence[Append] = (),
        session: LockingSession | None = None,
        alone: StateKey | None = None,
    ) -> Sequence[Acceptance] | Rejected:
        """Append the event that plans a sweep together with `further`, and add its jobs, all in one transaction.

        The transaction is made in the `session` that holds a lock, if given. An append that was refused or made before
        adds no jobs. Raises SessionBusy if the session `alone` has an open job, LogUnavailable, StatementEnded,
        DatabaseRefused, LogFull, LockLost.
        """
        result: Sequence[Acceptance] | Rejected = ()
        with self._lock(session) as cursor:
            held = None if alone is None else cursor.execute(_IN_SESSION, (self.name, _lock_of(alone))).fetchone()
            if held is not None and alone is not None:
                raise SessionBusy(actual=alone.key, run=held[0])
            result = judge_group(by_call(cursor, [encode_append(each) for each in (append, *further)]))
            if isinstance(result, Rejected):
                raise psycopg.Rollback
            if isinstance(result[0], Committed):
                self._put(cursor, planned)
        return result

    def put(self, wanted: Sequence[JobTicket]) -> int:
        """Add the missing jobs, in order, and return their number. Parked and cancelled jobs are not missing."""
        if not wanted:
            return 0
        with self._lock() as cursor:
            sweeps = sorted({ticket.sweep for ticket in wanted})
            there = set(cursor.execute(_THERE, (TASK, sweeps)).fetchall())
            lacking = [ticket for ticket in wanted if (ticket.sweep, ticket.spec) not in there]
            self._put(cursor, lacking)
        return len(lacking)

    def open(self) -> int:
        """Number of waiting and running jobs."""
        with self.engine.connect() as connection:
            return int(connection.execute(_OPEN, {"queue": self.name}).scalar_one())

    def cancel(self, sweep: str, spec: str | None = None) -> int:
        """Cancel the waiting jobs of a sweep, or of one spec in it, and return their number; running ones end."""
        with self.engine.begin() as connection:
            return len(connection.execute(_CANCEL, {"queue": self.name, "sweep": sweep, "spec": spec}).all())

    def heartbeats(self) -> Heartbeats:
        """Read the last heartbeats of all workers."""
        with self.engine.connect() as connection:
            server = connection.execute(_SERVER).scalar_one()
            rows = connection.execute(_BEATS).all()
        return Heartbeats(str(server), {row.id: row.last_heartbeat for row in rows})

    def rescue(self, lost: Mapping[int, datetime]) -> tuple[tuple[JobTicket, ...], tuple[JobTicket, ...]]:
        """Free the jobs of forgotten workers and of those whose last heartbeat is still the one in `lost`.

        Returns the requeued and the parked jobs. A job keeps its place, so the order of its session holds.
        """
        freed, parked = [], []
        with self.engine.begin() as connection:
            connection.execute(_SOONER, {"queue": self.name})  # a clock that went back would delay what was put back
            for row in connection.execute(_LOST, {"queue": self.name, **_as_arrays(lost)}).all():
                if row.attempts + 1 < TRIES:
                    connection.execute(_AGAIN, {"id": row.id})
                    freed.append(JobTicket(**row.args))
                else:
                    connection.execute(_FAIL, {"id": row.id})
                    connection.execute(_PARK, {"id": row.id, "error": LOST})
                    parked.append(JobTicket(**row.args))
        return tuple(freed), tuple(parked)

    def forget_workers(self, lost: Mapping[int, datetime]) -> None:
        """Delete workers whose last heartbeat is still the given one. One that wakes up later gets no more jobs."""
        if lost:
            with self.engine.begin() as connection:
                connection.execute(_FORGET_WORKERS, _as_arrays(lost))

    def beat(self, workers: Sequence[int]) -> None:
        """Record a heartbeat of these workers."""
        with self.engine.begin() as connection:
            connection.execute(_BEAT, {"ids": list(workers)})

    def holds(self, job: Queued) -> bool:
        """True if the worker still holds this delivery of a job: it was neither redelivered nor ended."""
        with self.engine.connect() as connection:
            return bool(connection.execute(_HOLDS, delivery_of(job)._asdict()).scalar_one())

    def put_back(self, job: Queued) -> None:
        """Requeue a job that its worker holds, in its old place, after a second and without counting an attempt."""
        with self.engine.begin() as connection:
            connection.execute(_PUT_BACK, delivery_of(job)._asdict())

    def note_error(self, job: int, error: str) -> None:
        """Store the error of a job's last attempt."""
        with self.engine.begin() as connection:
            connection.execute(_PARK, {"id": job, "error": error.replace("\0", "")})

    def parked_jobs(self) -> tuple[Parked, ...]:
        """Jobs that are not retried automatically, oldest first."""
        with self.engine.connect() as connection:
            rows = connection.execute(_PARKED, {"queue": self.name}).all()
        return tuple(Parked(JobTicket(**row.args), row.error) for row in rows)

    def retry_parked(self) -> int:
        """Requeue parked jobs, each with all its attempts, and return their number."""
        with self.engine.begin() as connection:
            rows = connection.execute(_PARKED, {"queue": self.name}).all()
            for row in rows:
                connection.execute(_AGAIN, {"id": row.id})
                connection.execute(_FROM_NONE, {"id": row.id})
        return len(rows)

    def resume(self, sweep: str, spec: str) -> bool:
        """Requeue the parked job of a spec, with all its attempts. False if it is not parked."""
        with self.engine.begin() as connection:
            found = connection.execute(_PARKED_SPEC, {"queue": self.name, "sweep": sweep, "spec": spec}).first()
            if found is None:
                return False
            connection.execute(_AGAIN, {"id": found.id})
            connection.execute(_FROM_NONE, {"id": found.id})
        return True

    @contextmanager
    def _lock(self, session: LockingSession | None = None) -> Iterator[Cursor]:
        """Transaction without other writers of jobs, in a session if given.

        Raises LogUnavailable, StatementEnded, DatabaseRefused, LockLost.
        """
        opened = single_statements(self.engine) if session is None else session.use()
        try:
            with opened as cursor, cursor.connection.transaction():
                cursor.execute(_LOCK)
                yield cursor
        except (psycopg.Error, DBAPIError) as error:
            raise database_error(error) from error

    def _put(self, cursor: Cursor, wanted: Sequence[JobTicket]) -> None:
        if wanted:
            jobs = [
                Queued(
                    queue=self.name,
                    lock=None if ticket.state_key is None else _lock_of(ticket.state),
                    queueing_lock=None,
                    task_name=TASK,
                    task_kwargs=ticket.args,
                )
                for ticket in wanted
            ]
            manager = App(connector=SyncPsycopgConnector()).job_manager
            try:
                manager.batch_defer_jobs(jobs, connection=cursor.connection)
            except ConnectorException as error:
                raise error.__cause__ or error from None  # what the driver said


def _lock_of(state: StateKey) -> str:
    """Lock of a session's jobs, which run one at a time."""
    return f"state:{state.profile}"


def _as_arrays(lost: Mapping[int, datetime]) -> dict[str, Any]:
    return {"ids": list(lost.keys()), "beats": list(lost.values())}
