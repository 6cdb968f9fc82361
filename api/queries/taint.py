"""Taint: what was withdrawn and erased, and what was learned from runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from projections.engine.views import Views
from projections.taint import ERASED, TAINT, WITHDRAWN, Holding, Tainted, runs_of_subject, trace_taint

from .runs import require_run


class TaintAnswer(msgspec.Struct, frozen=True):
    """What was learned from some runs."""

    tainted: Tainted


class WithdrawalRow(msgspec.Struct, frozen=True, kw_only=True):
    """Runs from which nothing is learned since a position, and why."""

    since: int
    reason: str
    runs: tuple[str, ...]


class WithdrawalList(msgspec.Struct, frozen=True):
    """Every withdrawal, oldest first."""

    withdrawals: tuple[WithdrawalRow, ...]


class ErasureRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subject whose data was destroyed at a position, and why."""

    since: int
    reason: str
    subject: str


class ErasureList(msgspec.Struct, frozen=True):
    """Every erasure, oldest first."""

    erasures: tuple[ErasureRow, ...]


def show_taint(views: Views, runs: Sequence[str], subject: str | None, holding: Holding) -> TaintAnswer:
    """What was learned from these runs and from those of a subject. Raises Unknown."""
    for run in runs:
        require_run(views, run)
    of_subject = () if subject is None else runs_of_subject(views, subject)
    return TaintAnswer(tainted=trace_taint(views, {*runs, *of_subject}, holding))


def list_withdrawals(views: Views) -> WithdrawalList:
    """Every withdrawal of runs."""
    found = views.find(TAINT, WITHDRAWN).values()
    return WithdrawalList(
        withdrawals=tuple(WithdrawalRow(since=fact.since, reason=fact.reason, runs=fact.runs) for fact in found)
    )


def list_erasures(views: Views) -> ErasureList:
    """Every erasure of a subject."""
    found = sorted(views.find(TAINT, ERASED).values(), key=lambda fact: fact.since)
    return ErasureList(
        erasures=tuple(ErasureRow(since=fact.since, reason=fact.reason, subject=fact.subject) for fact in found)
    )
