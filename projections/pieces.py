"""Pieces of memory that have an occasion, with one fold for each kind; rewrites have a fold of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from .candidacy import Candidacy, propose, quarantine, says_nothing_new, trial_told
from .engine.projection import EventRow, Fold

if TYPE_CHECKING:
    from eventlog.events import PieceKind


class PieceState(Candidacy, frozen=True, kw_only=True):
    """A piece of any kind but a rewrite, with its candidacy. `occasion` and `content` (a blob) are as recorded.

    `rank` orders pieces of a kind in addition to evidence, in millionths: the confidence of a hint, the reward of an
    exemplar's run. Only exemplars have a `form`; hints and exemplars have no `title`.
    """

    piece: str = ""
    kind: str = ""
    occasion: dict[str, str] = field(default_factory=dict)
    content: str = ""
    form: str = ""
    title: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class _Recording:
    """The event that records a kind of piece, and its fields for id, rank, form and title (None: no such field).

    One event may record several kinds: then it `names_kind`.
    """

    event: str
    id: str
    rank: str | None = None
    form: str | None = None
    title: str | None = None
    names_kind: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """Every field of the event that the fold reads."""
        named = (self.id, self.rank, self.form, self.title)
        kind = ("kind",) if self.names_kind else ()
        return (*(name for name in named if name is not None), *kind, "occasion", "content", "rule", "source", "run")


def _fold_of(name: str, version: int, kind: PieceKind, recorded: _Recording) -> Fold[PieceState]:
    """The fold of one kind of piece, with a row for each piece. It ignores trials and quarantines of other kinds."""

    def key(row: EventRow) -> str | None:
        if row.type == recorded.event and not recorded.names_kind:
            return row.text(recorded.id)
        return row.text("piece") if row.text("kind") == kind else None

    return Fold(
        name=name,
        version=version,
        reads={
            recorded.event: recorded.reads,
            "PieceTried": ("piece", "kind", "run", "control_runs", "control_successes", "won", "withheld", "env_seed"),
            "MemoryQuarantined": ("piece", "kind"),
        },
        initial=PieceState(kind=kind),
        is_kept=True,
        key=key,
        fold=_step(recorded),
        rests_on={recorded.event: ("run",), "PieceTried": ("run", "control_runs")},
    )


def _step(recorded: _Recording) -> Callable[[PieceState, EventRow], PieceState]:
    def fold(state: PieceState, row: EventRow) -> PieceState:
        match row.type:
            case "MemoryQuarantined":
                return replace(quarantine(state, row), piece=row.text("piece"))
            case "PieceTried":
                return trial_told(state, row, won=row.flag("won"), is_withheld=row.flag("withheld"))
            case _:
                return state if says_nothing_new(state, row) else _record(state, row, recorded)

    return fold


def _record(state: PieceState, row: EventRow, recorded: _Recording) -> PieceState:
    return replace(
        propose(state, row),
        piece=row.text(recorded.id),
        occasion=row.record("occasion"),
        content=row.text("content"),
        form="" if recorded.form is None else row.text(recorded.form),
        title="" if recorded.title is None else row.text(recorded.title),
        rank=0 if recorded.rank is None else row.number(recorded.rank),
    )


HINTS = _fold_of("hints", 3, "hint", _Recording("HintRecorded", id="hint", rank="confidence"))
"""Hints: where to find something that a step needs."""

EXEMPLARS = _fold_of(
    "exemplars", 3, "exemplar", _Recording("ExemplarCaptured", id="exemplar", rank="reward", form="form")
)
"""Exemplars: the actions of good runs at a step, ranked by reward."""

CURRICULUM = _fold_of("curriculum", 3, "snippet", _Recording("SnippetLearned", id="snippet", title="title"))
"""Snippets: short sequences of steps with one purpose, learned from good runs or authored."""

RECIPES = _fold_of("recipes", 3, "recipe", _Recording("RecipeImported", id="recipe", title="title"))
"""Recipes: named, reusable pieces of plan, which can be edited as a file."""

SKILL_PIECES = _fold_of(
    "skill_pieces", 1, "skill", _Recording("PieceProposed", id="piece", title="title", names_kind=True)
)
"""Skills as pieces of memory: Markdown for the workers of delegation loops, by the name in the catalogue."""

INSTRUCTIONS = _fold_of(
    "instructions", 1, "instruction", _Recording("PieceProposed", id="piece", title="title", names_kind=True)
)
"""Instructions: texts that an agent gets before its task."""
