"""Jobs into the log: started before it is played, everything of the run in one append when it has ended.

A process killed in between leaves a run that is started and not ended; whoever resumes plays it again, and the keys
see to it that its start and its end are in the log once. What a run proposes is appended together with its end, where
that is the one that stands; so nothing that was proposed is lost to a kill, and nothing of a refused end is proposed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from eventlog.blobs import BlobStore
from eventlog.events import HintRecorded, RewriteProposed, RunMissing
from eventlog.store import Append, EventStore, KeyReused, Position

from .dispatching.dispatch import beside
from .errors import KeyTaken, StartedOtherwise
from .play import Job, Means, Played, play, start_facts

ACTOR = "runner"


def stopwatch() -> int:
    """Monotonic microseconds."""
    return time.monotonic_ns() // 1_000


def rollout(job: Job, store: EventStore, blobs: BlobStore, means: Means, profile: bytes | None = None) -> Played:
    """Play one job and record it. A run that went missing is tried again before it is recorded as missing.

    Its start is recorded beside the reset of its instance; no step is taken before it stands. Where the run was ended
    otherwise before, this one is nothing: it does not stand, proposes nothing and leaves no profile. Raises
    StartedOtherwise where its start has another plan or executor, which may be under way elsewhere, and KeyTaken where
    another stream holds the run's keys.
    """
    executor = means.executor.name
    start = beside(lambda: _record_start(job, store, blobs, executor), f"start of {job.run}")

    def await_start() -> None:
        if not start.result():
            expected = f"what this process makes of it for the executor {executor}"
            raise StartedOtherwise(run=job.run, actual="another plan or by another executor", expected=expected)

    played = _try_to_play(job, means, profile, await_start)
    await_start()
    blobs.put(played.blobs)
    if not _record_end(job, store, played):
        return replace(played, stands=False, proposals=(), profile=None)
    return played


def abandon(job: Job, store: EventStore, blobs: BlobStore, executor: str, detail: str) -> bool:
    """Record a run that is not waited for any more as missing; whether it is: it may have ended a moment before.

    What the run itself would record later is refused, because its end is there. Raises KeyTaken.
    """
    _record_start(job, store, blobs, executor)
    return _stands(store, _finish(job, _missing_run(job, detail)))


def _record_start(job: Job, store: EventStore, blobs: BlobStore, executor: str) -> bool:
    """Record the start, or find it recorded with this same plan."""
    start, plan = start_facts(job, executor)
    blobs.put([plan])
    return _stands(store, Append(f"run/{job.run}", (start,), ACTOR, key=f"start:{job.run}"))


def _missing_run(job: Job, detail: str) -> Played:
    missing = RunMissing(run=job.run, group=job.spec.group_id, reason="platform_error", detail=detail)
    return Played((missing,), (), ())


def _try_to_play(job: Job, means: Means, profile: bytes | None, ready: Callable[[], None]) -> Played:
    for _ in range(means.tries):
        played = play(job, means, profile, ready)
        if played.events[-1].type != "RunMissing":
            break
    return played


def _record_end(job: Job, store: EventStore, played: Played) -> bool:
    """Append the end of a run and what was proposed in it; whether this end stands.

    Where something was proposed the end is looked for first, because what is appended with a refused end is not
    refused with it; together, because a process that is killed between two appends would lose what the run proposed.
    """
    proposals = _proposals(job, played)
    if proposals and _has_ended(store, job):
        return False
    return _stands(store, _finish(job, played), *proposals)


def _has_ended(store: EventStore, job: Job) -> bool:
    ends = store.read(stream=f"run/{job.run}", types=["RunFinished", "RunMissing"])
    return next(ends, None) is not None


def _stands(store: EventStore, request: Append, *others: Append) -> bool:
    """Append all together; whether the first stands in the log with this content, now or before. Raises KeyTaken."""
    outcome = store.append([request, *others])[0]
    if not isinstance(outcome, KeyReused):
        return True
    before = next(store.read(after=Position(outcome.first - 1), upto=outcome.first))
    if before.stream != request.stream:
        raise KeyTaken(key=request.key, actual=before.stream, expected=request.stream)
    return False


def _finish(job: Job, played: Played) -> Append:
    return Append(f"run/{job.run}", played.events, ACTOR, key=f"finish:{job.run}")


def _proposals(job: Job, played: Played) -> list[Append]:
    """What the folds have no row of, or what may return: once a sweep. Of all else nothing is said anew."""
    found = [_proposal_append(job, event) for event in played.proposals]
    return [request for piece, request in found if piece not in job.known or piece in job.returning]


def _proposal_append(job: Job, event: RewriteProposed | HintRecorded) -> tuple[str, Append]:
    # The version of the stream says nothing: what rests on a withdrawn run stands in it, and in no fold.
    piece, stream = (event.rewrite, "rewrite") if isinstance(event, RewriteProposed) else (event.hint, "hint")
    return piece, Append(f"{stream}/{piece}", (event,), ACTOR, key=f"propose:{piece}:{job.spec.sweep}")
