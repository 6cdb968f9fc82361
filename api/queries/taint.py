"""Taint: what was withdrawn and erased, and what was learned from runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from projections.engine.views import Views
from projections.taint import (
    ERASED,
    TAINT,
    WITHDRAWN,
    Holding,
    Tainted,
    key_of_withdrawal,
    runs_of_subject,
    trace_taint,
)

from .paging import page_after
from .runs import require_run


class TaintAnswer(msgspec.Struct, frozen=True):
    """The learning that came from some runs."""

    tainted: Tainted


class WithdrawalRow(msgspec.Struct, frozen=True, kw_only=True):
    """Runs from which nothing is learned since a position, and why."""

    since: int
    reason: str
    runs: tuple[str, ...]


class WithdrawalList(msgspec.Struct, frozen=True):
    """Withdrawals, oldest first; `next` is the position to continue after, null where no more follow."""

    withdrawals: tuple[WithdrawalRow, ...]
    next: int | None = None


class ErasureRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subject whose data was destroyed at a position, and why."""

    since: int
    reason: str
    subject: str


class ErasureList(msgspec.Struct, frozen=True):
    """Erasures in the order of the digests of their subjects.

    `next` is the digest to continue after, null where no more follow.
    """

    erasures: tuple[ErasureRow, ...]
    next: str | None = None


def show_taint(views: Views, runs: Sequence[str], subject: str | None, holding: Holding) -> TaintAnswer:
    """The learning that came from these runs and from those of a subject. Raises Unknown."""
    for run in runs:
        require_run(views, run)
    of_subject = () if subject is None else runs_of_subject(views, subject)
    return TaintAnswer(tainted=trace_taint(views, {*runs, *of_subject}, holding))


def list_withdrawals(views: Views, *, after: int = 0, limit: int | None = None) -> WithdrawalList:
    """The first `limit` withdrawals of runs after a position (None: all)."""
    page, following = page_after(views, TAINT, key_of_withdrawal(after), limit, WITHDRAWN)
    rows = tuple(WithdrawalRow(since=fact.since, reason=fact.reason, runs=fact.runs) for fact in page.values())
    return WithdrawalList(rows, None if following is None else rows[-1].since)


def list_erasures(views: Views, *, after: str | None = None, limit: int | None = None) -> ErasureList:
    """The first `limit` erasures whose subjects have digests that sort after `after` (None: all)."""
    start = None if after is None else f"{ERASED}{after}"
    page, following = page_after(views, TAINT, start, limit, ERASED)
    rows = tuple(ErasureRow(since=fact.since, reason=fact.reason, subject=fact.subject) for fact in page.values())
    return ErasureList(rows, None if following is None else following.removeprefix(ERASED))
