"""What helped before, for who walks no plan: the lessons of memory that a policy is told with a task. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eventlog.events import Applied, PieceKind

from .occasions import AnyPiece, OccasionPiece
from .ranking import rank_texts

MOST: Final = 5
"""So many lessons a task at most: each is a line that the model reads with every answer."""

_TOLD: Final[frozenset[PieceKind]] = frozenset({"hint", "exemplar"})


def worth_telling(instruction: str, environment: str, held: Iterable[AnyPiece]) -> tuple[OccasionPiece, ...]:
    """The hints and exemplars of an environment that share words with an instruction, best first, MOST at most.

    Best is what shares most with it, by BM25 in integers; then what ranks higher, then more wins, then the id. The
    order of `held` does not matter.
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
    """What each lesson says, on one line."""
    return tuple(" ".join(lesson.text.split()) for lesson in told)


def applied_of(told: Iterable[OccasionPiece]) -> tuple[Applied, ...]:
    """The lessons as a run records them; the step is the number of the line, for there is no plan."""
    return tuple(Applied(piece=each.piece, kind=each.kind, step=number) for number, each in enumerate(told))
