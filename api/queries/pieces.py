"""Pieces of memory of every kind, and the record of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import msgspec

from agents.learning.memory import content_reader
from agents.learning.occasions import text_and_change
from eventlog.blobs import BlobStore
from eventlog.events import PieceKind, PieceTried, RewriteLost, RewriteWon
from eventlog.store import EventStore
from projections.candidacy import piece_status
from projections.engine.views import Views
from projections.memories import FOLDS
from projections.pieces import PieceState
from projections.rewrites import RewriteState
from projections.runs import RUNS
from projections.taint import withdrawals

from .changes import describe_change
from .facts import find_state
from .history import Since, page_history
from .paging import filter_page, page_after
from .piece_reports import PieceSummary, StatusRow, TrialRow, status_rows, summarize_piece, trials_of

AnyState = RewriteState | PieceState
S = TypeVar("S", bound=AnyState)


class PieceList(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """Pieces of one kind in order of id; in JSON they are under the name of the kind's fold.

    `next` is the id to continue after, null where no more follow.
    """

    pieces: tuple[S, ...]
    next: str | None = None


class PieceAnswer(msgspec.Struct, Generic[S], frozen=True):
    """One piece and what it was before, oldest first; in JSON the piece is under the name of its kind.

    `next` is the position to continue after, null where no more follow.
    """

    piece: S
    history: tuple[Since[S], ...]
    next: int | None = None


class PieceContent(msgspec.Struct, frozen=True):
    """Text of a piece, and the change that it proposes; `does` is null if the content was erased."""

    says: str
    does: str | None


class PieceReport(msgspec.Struct, Generic[S], frozen=True):
    """A piece, how it stands, and its content; a rewrite has none beside its state."""

    state: S
    summary: PieceSummary
    content: PieceContent | None


class PieceRecord(msgspec.Struct, Generic[S], frozen=True):
    """The report of one piece, how its status changed, and every trial of it."""

    report: PieceReport[S]
    history: tuple[StatusRow, ...]
    trials: tuple[TrialRow, ...]


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A piece in a list: how it was found, in which run (empty: none), and how it stands."""

    piece: str
    source: str
    found_in: str
    summary: PieceSummary


class SummaryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces in order of id; `next` is the id to continue after, null where no more follow."""

    pieces: tuple[SummaryRow, ...]
    next: str | None


class RewriteList(PieceList[RewriteState], frozen=True, kw_only=True):
    """Rewrites in order of id; `next` is the id to continue after, null where no more follow."""

    pieces: tuple[RewriteState, ...] = msgspec.field(name="rewrites")


class RewriteAnswer(PieceAnswer[RewriteState], frozen=True):
    """One rewrite and what it was before, oldest first."""

    piece: RewriteState = msgspec.field(name="rewrite")


class HintList(PieceList[PieceState], frozen=True, kw_only=True):
    """Hints in order of id; `next` is the id to continue after, null where no more follow."""

    pieces: tuple[PieceState, ...] = msgspec.field(name="hints")


class HintAnswer(PieceAnswer[PieceState], frozen=True):
    """One hint and what it was before, oldest first."""

    piece: PieceState = msgspec.field(name="hint")


class ExemplarList(PieceList[PieceState], frozen=True, kw_only=True):
    """Exemplars in order of id; `next` is the id to continue after, null where no more follow."""

    pieces: tuple[PieceState, ...] = msgspec.field(name="exemplars")


class ExemplarAnswer(PieceAnswer[PieceState], frozen=True):
    """One exemplar and what it was before, oldest first."""

    piece: PieceState = msgspec.field(name="exemplar")


class SnippetList(PieceList[PieceState], frozen=True, kw_only=True):
    """Snippets in order of id; `next` is the id to continue after, null where no more follow."""

    pieces: tuple[PieceState, ...] = msgspec.field(name="curriculum")


class SnippetAnswer(PieceAnswer[PieceState], frozen=True):
    """One snippet and what it was before, oldest first."""

    piece: PieceState = msgspec.field(name="snippet")


class RecipeList(PieceList[PieceState], frozen=True, kw_only=True):
    """Recipes in order of id; `next` is the id to continue after, null where no more follow."""

    pieces: tuple[PieceState, ...] = msgspec.field(name="recipes")


class RecipeAnswer(PieceAnswer[PieceState], frozen=True):
    """One recipe and what it was before, oldest first."""

    piece: PieceState = msgspec.field(name="recipe")


class SkillPieceList(PieceList[PieceState], frozen=True, kw_only=True):
    """Skills in order of id; `next` is the id to continue after, null where no more follow."""

    pieces: tuple[PieceState, ...] = msgspec.field(name="skill_pieces")


class SkillPieceAnswer(PieceAnswer[PieceState], frozen=True):
    """One skill and what it was before, oldest first."""

    piece: PieceState = msgspec.field(name="skill")


class InstructionList(PieceList[PieceState], frozen=True, kw_only=True):
    """Instructions in order of id; `next` is the id to continue after, null where no more follow."""

    pieces: tuple[PieceState, ...] = msgspec.field(name="instructions")


class InstructionAnswer(PieceAnswer[PieceState], frozen=True):
    """One instruction and what it was before, oldest first."""

    piece: PieceState = msgspec.field(name="instruction")


LISTS: Final[Mapping[PieceKind, type[PieceList[Any]]]] = {
    "rewrite": RewriteList,
    "hint": HintList,
    "exemplar": ExemplarList,
    "snippet": SnippetList,
    "recipe": RecipeList,
    "skill": SkillPieceList,
    "instruction": InstructionList,
}
SINGLES: Final[Mapping[PieceKind, type[PieceAnswer[Any]]]] = {
    "rewrite": RewriteAnswer,
    "hint": HintAnswer,
    "exemplar": ExemplarAnswer,
    "snippet": SnippetAnswer,
    "recipe": RecipeAnswer,
    "skill": SkillPieceAnswer,
    "instruction": InstructionAnswer,
}
LISTED_BY: Final[Mapping[PieceKind, str]] = {
    kind: "skills pieces" if kind == "skill" else FOLDS[kind].name for kind in FOLDS
}
"""The command that lists each kind of piece."""


def find_pieces(views: Views, kind: PieceKind, *, after: str | None = None, limit: int | None = None) -> PieceList[Any]:
    """The first `limit` pieces of a kind whose ids sort after `after` (None: all)."""
    fold = FOLDS[kind]
    page, following = (views.find(fold), None) if limit is None else page_after(views, fold, after, limit)
    return LISTS[kind](pieces=tuple(page.values()), next=following)


def page_pieces(
    views: Views, kind: PieceKind, now: datetime, *, status: str | None = None, after: str | None = None, limit: int
) -> SummaryPage:
    """A page of the pieces of a kind that have a status at `now` (None: any), in order of id. Reads no contents."""
    page, following = _page_states(views, kind, now, status, after, limit)
    rows = tuple(
        SummaryRow(piece=key, source=state.source, found_in=state.proposed_by, summary=summarize_piece(state, now))
        for key, state in page.items()
    )
    return SummaryPage(pieces=rows, next=following)


def _page_states(
    views: Views, kind: PieceKind, now: datetime, status: str | None, after: str | None, limit: int
) -> tuple[dict[str, AnyState], str | None]:
    fold: Any = FOLDS[kind]
    if status is None:
        return page_after(views, fold, after, limit)

    def keep(states: dict[str, Any]) -> dict[str, Any]:
        return {key: state for key, state in states.items() if piece_status(state, now) == status}

    return filter_page(views, fold, keep, after=after, limit=limit)


def show_piece(
    views: Views, kind: PieceKind, piece: str, *, after: int = 0, limit: int | None = None
) -> PieceAnswer[Any]:
    """A piece with a page of its history. Raises Unknown."""
    fold = FOLDS[kind]
    way_out = f"List them with `flywheel {LISTED_BY[kind]} list` or GET /v1/{fold.name}."
    state = find_state(views, fold, piece, what=kind, way_out=way_out)
    history, following = page_history(views, fold, piece, after=after, limit=limit)
    return SINGLES[kind](piece=state, history=history, next=following)


def report_pieces(
    blobs: BlobStore,
    views: Views,
    kind: PieceKind,
    now: datetime,
    status: str | None = None,
    *,
    after: str | None = None,
    limit: int,
) -> tuple[tuple[PieceReport[Any], ...], str | None]:
    """A page of the pieces of a kind that have a status at `now` (None: any), in order of id, and where it goes on."""
    page, following = _page_states(views, kind, now, status, after, limit)
    return tuple(_report(blobs, state, now) for state in page.values()), following


def pick_reports(
    blobs: BlobStore, views: Views, kind: PieceKind, pieces: Collection[str], now: datetime
) -> tuple[PieceReport[Any], ...]:
    """The pieces of a kind with these ids, in order of id."""
    return tuple(_report(blobs, state, now) for state in views.pick(FOLDS[kind], pieces).values())


def record_piece(
    store: EventStore, blobs: BlobStore, views: Views, kind: PieceKind, piece: str, now: datetime
) -> PieceRecord[Any]:
    """Everything that is known of a piece at `now`. Raises Unknown."""
    found = show_piece(views, kind, piece)
    recorded = tuple(store.read(stream=f"{kind}/{piece}", upto=views.upto))
    tried = {each.event.run for each in recorded if isinstance(each.event, RewriteWon | RewriteLost | PieceTried)}
    seeds = {run: state.env_seed for run, state in views.pick(RUNS, tried).items()}
    trials = trials_of(recorded, found.history, withdrawals(views), seeds)
    return PieceRecord(_report(blobs, found.piece, now), status_rows(found.history), trials)


def _report(blobs: BlobStore, state: AnyState, now: datetime) -> PieceReport[Any]:
    content = _read_content(blobs, state) if isinstance(state, PieceState) else None
    return PieceReport(state, summarize_piece(state, now), content)


def _read_content(blobs: BlobStore, state: PieceState) -> PieceContent:
    content = content_reader(blobs)(state.content) if state.content else None
    if content is None:
        return PieceContent(says="erased" if state.content else "", does=None)
    text, change = text_and_change(content)
    return PieceContent(says=text, does=None if change is None else describe_change(change.model_dump(mode="json")))
