"""Erasure: destroy a subject's key and bytes, record it, and list what was learned from the data."""

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
    """A subject's runs, what was learned from them, and the position of its erasure, if there is one."""

    runs: tuple[str, ...]
    tainted: Tainted
    since: int | None


def what_is_known_of(house: House, views: Views, subject: str) -> SubjectTrace:
    """Trace of a subject in the log, at the position of `views`."""
    runs, before = runs_of_subject(views, subject), erasure(views, subject)
    return SubjectTrace(runs, taint_of_runs(house, views, runs), None if before is None else before.since)


def is_known(house: House, found: SubjectTrace, subject: str) -> bool:
    """True if a run or blob belongs to the subject, or it was erased before. Scans all blobs if no run does."""
    if found.runs or found.since is not None:
        return True
    tag = subject_tag(subject)
    return any(item.subject == tag for item in house.blobs.list_blobs())


def erasure_event(subject: str, reason: str) -> SubjectErased:
    """Event of an erasure, created before anything is destroyed. Raises NoReason, UnstorableText, ValidationError."""
    if not reason.strip():
        raise NoReason(what="the subject is erased")
    canonical({"subject": subject, "reason": reason})
    return SubjectErased(subject=subject, reason=reason)


def erase_subject(store: EventStore, blobs: BlobStore, event: SubjectErased, actor: str) -> tuple[int, Position]:
    """Destroy the subject's key and bytes, then record it. Returns the number of blobs and the event's position.

    If the process is killed in between, calling it again records the erasure. An earlier record keeps its position and
    reason. `blobs` must have the right to delete.
    """
    destroyed = blobs.erase(event.subject)
    key = f"erase:{hashlib.sha256(event.subject.encode()).hexdigest()}"
    (outcome,) = store.append([Append(STREAM, (event,), actor, key=key)])
    if isinstance(outcome, Conflict):
        raise TypeError(f"an erasure names no version, and the store answered {outcome!r}; expected no conflict")
    return destroyed, outcome.first
