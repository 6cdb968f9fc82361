"""Advice: the hints and exemplars of memory that a policy, which follows no plan, is told with a task. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eventlog.events import Applied, PieceKind

from .occasions import AnyPiece, OccasionPiece
from .ranking import rank_texts

MOST: Final = 5
"""Most pieces told per task; each is one line that the model reads with every answer."""

_TOLD: Final[frozenset[PieceKind]] = frozenset({"hint", "exemplar"})


def worth_telling(instruction: str, environment: str, held: Iterable[AnyPiece]) -> tuple[OccasionPiece, ...]:
    """Hints and exemplars of an environment that share words with an instruction, best first, at most MOST.

    They are sorted by BM25 score in integers, then by higher rank, more wins, and id. The order of `held` does not
    matter.
    """
    found = {
        each.piece: each
        for each in held
        if isinstance(each, OccasionPiece)
        and each.kind in _TOLD
        and each.occasion.environment == environment
        and each.text
    }
    scores = dict(rank_texts(instruction, {name: lesson.words for name, lesson in found.items()}))
    best = sorted(scores, key=lambda name: (-scores[name], -found[name].rank, -found[name].wins, name))
    return tuple(found[name] for name in best[:MOST])


def advice_lines(told: Iterable[OccasionPiece]) -> tuple[str, ...]:
    """Text of each piece, on one line."""
    return tuple(" ".join(lesson.text.split()) for lesson in told)


def applied_of(told: Iterable[OccasionPiece]) -> tuple[Applied, ...]:
    """Pieces as a run records them; `step` is the line number, because there is no plan."""
    return tuple(Applied(piece=each.piece, kind=each.kind, step=number) for number, each in enumerate(told))
