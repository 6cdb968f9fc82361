"""Overview: how far the loop has come as of a position, in figures that cost the same in any log."""

from __future__ import annotations

from collections import Counter

import msgspec

from eventlog.events import PieceKind
from projections.champions import CHAMPION, CHAMPIONS, ChampionState
from projections.checkpoints import WEIGHTS
from projections.costs import COSTS, SPENT, CostState
from projections.engine.views import Views
from projections.evaluations import EVALUATIONS
from projections.frozen_datasets import CHECKPOINTS
from projections.memories import FOLDS
from projections.slices import SLICES
from projections.sweeps import SWEEPS

from .untold import find_playing

MOST_COUNTED = 500
"""Datasets, slices and checkpoints are counted up to this number."""


class PieceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many pieces of one kind there are, by status as it was last recorded."""

    kind: PieceKind
    fold: str
    total: int
    statuses: dict[str, int]


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """How far the loop has come at `position`. `spent` is in micro-dollars, and null while an evaluation plays.

    `datasets`, `slices` and `checkpoints` are counted up to MOST_COUNTED. `decisions` counts the verdicts.
    """

    position: int
    champion: ChampionState | None
    sweeps: int
    open_sweeps: int
    graded: int
    spent: int | None
    pieces: tuple[PieceCounts, ...]
    evaluations: int
    open_evaluations: int
    decisions: dict[str, int]
    datasets: int
    slices: int
    checkpoints: int

    @property
    def is_empty(self) -> bool:
        """True if nothing was planned, graded, learned or pointed at yet."""
        return self.champion is None and not (self.sweeps or self.graded or self.evaluations)

    def pieces_with(self, status: str) -> int:
        """The number of pieces of all kinds with a status."""
        return sum(each.statuses.get(status, 0) for each in self.pieces)


def show_overview(views: Views) -> Overview:
    """The state of the loop as of the views' position."""
    sweeps = views.find(SWEEPS).values()
    evaluations = [each for state in views.find(EVALUATIONS).values() for each in state.evaluations]
    sums = views.get(COSTS, SPENT) or CostState()
    return Overview(
        position=int(views.upto),
        champion=views.get(CHAMPIONS, CHAMPION),
        sweeps=sum(state.planned for state in sweeps),
        open_sweeps=sum(len(state.open) for state in sweeps),
        graded=sums.runs,
        spent=None if find_playing(views, views) else sums.spent,
        pieces=tuple(_count_pieces(views, kind) for kind in FOLDS),
        evaluations=len(evaluations),
        open_evaluations=sum(each.is_open for each in evaluations),
        decisions=dict(sorted(Counter(each.decision for each in evaluations if each.decision is not None).items())),
        datasets=len(views.page(CHECKPOINTS, limit=MOST_COUNTED)),
        slices=len(views.page(SLICES, limit=MOST_COUNTED)),
        checkpoints=len(views.page(WEIGHTS, limit=MOST_COUNTED)),
    )


def _count_pieces(views: Views, kind: PieceKind) -> PieceCounts:
    """Counts of a kind; its fold is one whose states a process keeps, so that only changes are read again."""
    statuses = Counter(state.status for state in views.find(FOLDS[kind]).values())
    return PieceCounts(
        kind=kind, fold=FOLDS[kind].name, total=statuses.total(), statuses=dict(sorted(statuses.items()))
    )
