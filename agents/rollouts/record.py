"""Jobs into the log: started before it is played, everything else in one append when it has ended.

A process killed in between leaves a run that is started and not ended; whoever resumes plays it again, and the keys
see to it that its start and its end are in the log once.
"""

from __future__ import annotations

import time

from eventlog.blobs import BlobStore
from eventlog.events import RunMissing
from eventlog.store import Append, EventStore, KeyReused, Position

from .errors import KeyTaken
from .play import Job, Means, Played, play, started

ACTOR = "runner"
TRIES = 3


def stopwatch() -> int:
    """Monotonic microseconds."""
    return time.monotonic_ns() // 1_000


def rollout(job: Job, store: EventStore, blobs: BlobStore, means: Means, profile: bytes | None = None) -> Played:
    """Play one job and record it. A run that went missing is tried again before it is recorded as missing.

    A run that was started with another plan, by other code, is missing: what it was started with can't be played.
    Raises KeyTaken where another stream holds the run's keys.
    """
    if _begun(job, store, blobs, means.executor.name):
        played = _tried(job, means, profile)
    else:
        played = _missing(job, "it was started with another plan than this code makes for it")
    blobs.put(played.blobs)
    finish, *proposals = _appends(job, played)
    _stands(store, finish, *proposals)
    return played


def abandon(job: Job, store: EventStore, blobs: BlobStore, executor: str, detail: str) -> bool:
    """Record a run that is not waited for any more as missing; whether it is: it may have ended a moment before.

    What the run itself would record later is refused, because its end is there. Raises KeyTaken.
    """
    _begun(job, store, blobs, executor)
    (finish,) = _appends(job, _missing(job, detail))
    return _stands(store, finish)


def _begun(job: Job, store: EventStore, blobs: BlobStore, executor: str) -> bool:
    """Record the start, or find it recorded with this same plan."""
    start, plan = started(job, executor)
    blobs.put([plan])
    return _stands(store, Append(f"run/{job.run}", (start,), ACTOR, key=f"start:{job.run}"))


def _missing(job: Job, detail: str) -> Played:
    missing = RunMissing(run=job.run, group=job.spec.group_id, reason="platform_error", detail=detail)
    return Played((missing,), (), ())


def _tried(job: Job, means: Means, profile: bytes | None) -> Played:
    for _ in range(TRIES):
        played = play(job, means, profile)
        if played.events[-1].type != "RunMissing":
            break
    return played


def _stands(store: EventStore, request: Append, *others: Append) -> bool:
    """Append all together; whether the first stands in the log with this content, now or before. Raises KeyTaken."""
    outcome = store.append([request, *others])[0]
    if not isinstance(outcome, KeyReused):
        return True
    before = next(store.read(after=Position(outcome.first - 1), upto=outcome.first))
    if before.stream != request.stream:
        raise KeyTaken(key=request.key, actual=before.stream, expected=request.stream)
    return False


def _appends(job: Job, played: Played) -> list[Append]:
    proposals = [
        Append(f"rewrite/{event.rewrite}", (event,), ACTOR, expect=0, key=f"propose:{event.rewrite}")
        for event in played.proposals
    ]
    return [Append(f"run/{job.run}", played.events, ACTOR, key=f"finish:{job.run}"), *proposals]
