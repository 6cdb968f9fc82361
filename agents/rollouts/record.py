"""Recording of jobs: a run's start is appended before its first step, all its other events in one append at its end.

A process killed in between leaves a run that is started and not ended. The next process plays it again, and the append
keys ensure that its start and its end are in the log once. A run's proposals are appended together with its end, so a
kill loses no proposal, and a refused end proposes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from eventlog.blobs import BlobStore
from eventlog.events import HintRecorded, RewriteProposed, RunMissing
from eventlog.store import Append, EventStore, KeyReused, Outcome, Position, Rejected

from .dispatching.dispatch import beside
from .errors import KeyTaken, StartedOtherwise
from .play import Job, Means, Played, play, start_facts

ACTOR = "runner"


def stopwatch() -> int:
    """Monotonic microseconds."""
    return time.monotonic_ns() // 1_000


def rollout(job: Job, store: EventStore, blobs: BlobStore, means: Means, profile: bytes | None = None) -> Played:
    """Play one job and record it. A run that went missing is tried again before it is recorded as missing.

    The start is recorded while the instance resets; no step is taken before it is in the log. If the log already holds
    another end of the run, the result has `stands` False, no proposals and no profile. Raises StartedOtherwise if the
    run was started with another plan or executor (it may still run elsewhere), and KeyTaken if another stream used the
    run's append keys.
    """
    executor = means.executor.name
    start = beside(lambda: _record_start(job, store, blobs, executor), f"start of {job.run}")

    def await_start() -> None:
        if not start.result():
            expected = f"the plan that this process makes for the executor {executor}"
            raise StartedOtherwise(run=job.run, actual="another plan or another executor", expected=expected)

    played = _try_to_play(job, means, profile, await_start)
    await_start()
    blobs.put(played.blobs)
    if not _record_end(job, store, played):
        return replace(played, stands=False, proposals=(), profile=None)
    return played


def abandon(job: Job, store: EventStore, blobs: BlobStore, executor: str, detail: str) -> RunMissing | None:
    """Record an abandoned run as missing. Returns its end; None if the run had already ended.

    A later end by the run itself is refused, because its end is in the log. Raises KeyTaken.
    """
    _record_start(job, store, blobs, executor)
    missing = RunMissing(run=job.run, group=job.spec.group_id, reason="platform_error", detail=detail)
    return missing if _stands(store, _finish(job, Played((missing,), (), ()))) else None


def interrupt(run: str, group: str, store: EventStore) -> None:
    """Record a run as missing whose process ended before it did. Without effect on a run that has ended.

    The caller must know that nobody plays it. Raises KeyTaken.
    """
    detail = "the process that played it ended before it did"
    missing = RunMissing(run=run, group=group, reason="interrupted", detail=detail)
    _stands(store, Append(f"run/{run}", (missing,), ACTOR, key=f"finish:{run}"))


def _record_start(job: Job, store: EventStore, blobs: BlobStore, executor: str) -> bool:
    """Record the start of a run. False if the log holds a start with another plan or executor."""
    start, plan = start_facts(job, executor)
    blobs.put([plan])
    return _stands(store, Append(f"run/{job.run}", (start,), ACTOR, key=f"start:{job.run}"))


def _try_to_play(job: Job, means: Means, profile: bytes | None, ready: Callable[[], None]) -> Played:
    for _ in range(means.tries):
        played = play(job, means, profile, ready)
        if played.events[-1].type != "RunMissing":
            break
    return played


def _record_end(job: Job, store: EventStore, played: Played) -> bool:
    """Append the end of a run and its proposals, all or none. True if this end is the one in the log.

    A proposal that another run of the sweep has made is left out, and the rest is appended again.
    """
    end, proposals = _finish(job, played), _proposals(job, played)
    while proposals:
        result = store.append_together([end, *proposals])
        if not isinstance(result, Rejected):
            return True
        if result.refusals[0] is not None:
            return _is_held(store, end, result.refusals[0])
        proposals = [each for each, why in zip(proposals, result.refusals[1:], strict=True) if why is None]
    return _stands(store, end)


def _stands(store: EventStore, request: Append) -> bool:
    """Append a request. True if the log holds it with this content. Raises KeyTaken."""
    return _is_held(store, request, store.append([request])[0])


def _is_held(store: EventStore, request: Append, outcome: Outcome) -> bool:
    """True if the log holds a request of this outcome; False if it has another content there. Raises KeyTaken.

    What an earlier version of the vocabulary recorded is the same if it reads the same today.
    """
    if not isinstance(outcome, KeyReused):
        return True
    before = list(store.read(after=Position(outcome.first - 1), upto=outcome.last))
    if before[0].stream != request.stream:
        raise KeyTaken(key=request.key, actual=before[0].stream, expected=request.stream)
    return tuple(each.event for each in before) == tuple(request.events)


def _finish(job: Job, played: Played) -> Append:
    return Append(f"run/{job.run}", played.events, ACTOR, key=f"finish:{job.run}")


def _proposals(job: Job, played: Played) -> list[Append]:
    """Appends of the proposals that the folds have no row of or that may return, once per sweep."""
    found = [_proposal_append(job, event) for event in played.proposals]
    return [request for piece, request in found if piece not in job.known or piece in job.returning]


def _proposal_append(job: Job, event: RewriteProposed | HintRecorded) -> tuple[str, Append]:
    # The stream's version cannot tell if a piece is new: events of withdrawn runs are in the stream, but in no fold.
    piece, stream = (event.rewrite, "rewrite") if isinstance(event, RewriteProposed) else (event.hint, "hint")
    return piece, Append(f"{stream}/{piece}", (event,), ACTOR, key=f"propose:{piece}:{job.spec.sweep}")
