"""Erasure: a subject's key and bytes are destroyed, then the log says so. What had seen them is listed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from eventlog.blobs import BlobStore
from eventlog.chain import canonical
from eventlog.events import SubjectErased
from eventlog.keys import subject_tag
from eventlog.store import Append, Conflict, EventStore, Position
from projections.engine.views import Views
from projections.taint import Tainted, erasure, runs_of_subject

from ..errors import NoReason
from ..house import House
from .withdraw import taint_of_runs

STREAM = "erasures"


@dataclass(frozen=True, slots=True)
class SubjectTrace:
    """What had seen a subject's data: its runs and what was learned from them; since when it is erased, if it is."""

    runs: tuple[str, ...]
    tainted: Tainted
    since: int | None


def what_is_known_of(house: House, views: Views, subject: str) -> SubjectTrace:
    """What the log knows of a subject, as of what `views` show."""
    runs, before = runs_of_subject(views, subject), erasure(views, subject)
    return SubjectTrace(runs, taint_of_runs(house, views, runs), None if before is None else before.since)


def is_known(house: House, found: SubjectTrace, subject: str) -> bool:
    """Whether a run or a blob is the subject's, or it was erased before. Looks through the blobs where no run is."""
    if found.runs or found.since is not None:
        return True
    tag = subject_tag(subject)
    return any(item.subject == tag for item in house.blobs.list_blobs())


def erasure_event(subject: str, reason: str) -> SubjectErased:
    """The event of an erasure, made before anything is destroyed. Raises NoReason, UnstorableText, ValidationError."""
    if not reason.strip():
        raise NoReason(what="the subject is erased")
    canonical({"subject": subject, "reason": reason})
    return SubjectErased(subject=subject, reason=reason)


def erase_subject(store: EventStore, blobs: BlobStore, event: SubjectErased, actor: str) -> tuple[int, Position]:
    """Destroy the subject's key and bytes, then record it: the number of blobs, and the position that says so.

    A process that is killed in between has destroyed what it was asked to and not said so: doing it again says it.
    Where it was said before, that position stands with its reason. `blobs` is a store that may delete.
    """
    destroyed = blobs.erase(event.subject)
    key = f"erase:{hashlib.sha256(event.subject.encode()).hexdigest()}"
    (outcome,) = store.append([Append(STREAM, (event,), actor, key=key)])
    if isinstance(outcome, Conflict):
        raise TypeError(f"an erasure names no version, and the store answered {outcome!r}; expected no conflict")
    return destroyed, outcome.first
