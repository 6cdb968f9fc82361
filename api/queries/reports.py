"""Reports on pieces of memory: how each stands at a time, what it says, and every trial of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic

import msgspec

from eventlog.blobs import BlobStore
from eventlog.events import PieceKind
from eventlog.store import EventStore
from projections.engine.views import Views
from projections.pieces import PieceState
from projections.rewrites import RewriteState

from .pieces import PieceRecord, PieceReport, S, record_piece, report_pieces


class ReportList(msgspec.Struct, Generic[S], frozen=True):
    """Reports on pieces of one kind in order of id; `next` is the id to continue after, or null."""

    reports: tuple[PieceReport[S], ...]
    next: str | None = None


class RewriteReports(ReportList[RewriteState], frozen=True):
    """Reports on rewrites in order of id; `next` is the id to continue after, or null."""

    reports: tuple[PieceReport[RewriteState], ...]


class PieceReports(ReportList[PieceState], frozen=True):
    """Reports on hints, exemplars, snippets or recipes in order of id; `next` is the id to continue after, or null."""

    reports: tuple[PieceReport[PieceState], ...]


class RewriteRecord(msgspec.Struct, frozen=True):
    """The report on one rewrite, how its status changed, and every trial of it."""

    record: PieceRecord[RewriteState]


class LooseRecord(msgspec.Struct, frozen=True):
    """The report on one hint, exemplar, snippet or recipe, how its status changed, and every trial of it."""

    record: PieceRecord[PieceState]


def reports_kind(kind: PieceKind) -> type[RewriteReports | PieceReports]:
    """The struct that lists reports on a kind of piece."""
    return RewriteReports if kind == "rewrite" else PieceReports


def record_kind(kind: PieceKind) -> type[RewriteRecord | LooseRecord]:
    """The struct that holds the record of one piece of a kind."""
    return RewriteRecord if kind == "rewrite" else LooseRecord


def list_reports(
    blobs: BlobStore,
    views: Views,
    kind: PieceKind,
    now: datetime,
    *,
    status: str | None = None,
    after: str | None = None,
    limit: int,
) -> RewriteReports | PieceReports:
    """A page of the reports on pieces of a kind that have a status at `now` (None: any)."""
    page, following = report_pieces(blobs, views, kind, now, status, after=after, limit=limit)
    return reports_kind(kind)(page, following)


def show_record(
    store: EventStore, blobs: BlobStore, views: Views, kind: PieceKind, piece: str, now: datetime
) -> RewriteRecord | LooseRecord:
    """Everything that is known of a piece at `now`. Raises Unknown."""
    record: PieceRecord[Any] = record_piece(store, blobs, views, kind, piece, now)
    return record_kind(kind)(record)
