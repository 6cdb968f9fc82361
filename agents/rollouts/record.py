"""Jobs into the log: started before it is played, everything else in one append when it has ended.

A process killed in between leaves a run that is started and not ended; whoever resumes plays it again, and the keys
see to it that its start and its end are in the log once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from eventlog.blobs import BlobStore
from eventlog.events import RunMissing
from eventlog.store import Append, EventStore, KeyReused, Position

from .errors import KeyTaken
from .play import Job, Means, Played, play, started

ACTOR = "runner"
MAX_PARALLEL = 4
TRIES = 3


def stopwatch() -> int:
    """Monotonic microseconds."""
    return time.monotonic_ns() // 1_000


def rollout(job: Job, store: EventStore, blobs: BlobStore, means: Means) -> Played:
    """Play one job and record it. A run that went missing is tried again before it is recorded as missing.

    A run that was started with another plan, by other code, is missing: what it was started with can't be played.
    Raises KeyTaken where another stream holds the run's keys.
    """
    start, plan = started(job, means.executor.name)
    blobs.put([plan])
    request = Append(f"run/{job.run}", (start,), ACTOR, key=f"start:{job.run}")
    if _stands(store, request):
        played = _tried(job, means)
    else:
        detail = "it was started with another plan than this code makes for it"
        missing = RunMissing(run=job.run, group=job.spec.group_id, reason="platform_error", detail=detail)
        played = Played((missing,), (), ())
    blobs.put(played.blobs)
    finish, *proposals = _appends(job, played)
    _stands(store, finish, *proposals)
    return played


def _tried(job: Job, means: Means) -> Played:
    for _ in range(TRIES):
        played = play(job, means)
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


def dispatch(
    jobs: Sequence[Job], work: Callable[[Job], Played], *, max_parallel: int = MAX_PARALLEL
) -> Iterator[tuple[Job, Played]]:
    """Play jobs side by side, each as it ends; at most `max_parallel` at once (1: one after another).

    An error stops the giving out of jobs, lets those under way end and be recorded, and is then raised.
    """
    if max_parallel < 1:
        raise ValueError(f"max_parallel is {max_parallel}; expected at least 1")
    waiting = iter(jobs)
    with ThreadPoolExecutor(max_workers=max_parallel, thread_name_prefix="rollout") as pool:
        running: dict[Future[Played], Job] = {}
        while True:
            while len(running) < max_parallel and (job := next(waiting, None)) is not None:
                running[pool.submit(work, job)] = job
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
