"""Transfer: a lesson that was promoted in one cluster of tasks, proposed for tasks of another that fail. Pure.

The copy is a piece of its own, with its own occasion and its own evidence. So each cluster decides for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from eventlog.events import PieceKind, Template

from .capture import Captured
from .occasions import OccasionPiece
from .ranking import word_share

LEAST_SHARE: Final = 250_000
"""Least share of an instruction's words (millionths) that a lesson must have to be tried in another cluster."""


def transfer(
    environment: str, lessons: Iterable[OccasionPiece], failing: Iterable[Template], runs: Mapping[str, str]
) -> tuple[Captured, ...]:
    """For each failing task the promoted lesson of another cluster that shares most words with it, if any does.

    `runs` names a failed run of each failing template, by id: it proposes the copy, and so is no evidence about it.
    """
    held = sorted(set(lessons), key=lambda each: each.piece)
    found: dict[str, Captured] = {}
    for template in sorted(failing, key=lambda each: each.template_id):
        others = [each for each in held if _is_elsewhere(each, environment, template)]
        shares = {each.piece: word_share(template.instruction, each.words) for each in others}
        fitting = [each for each in others if shares[each.piece] >= LEAST_SHARE]
        if fitting:
            best = min(fitting, key=lambda each: (-shares[each.piece], -each.wins, each.piece))
            copy = _copy(best, template, runs[template.template_id])
            found.setdefault(copy.name, copy)
    return tuple(found[name] for name in sorted(found))


def _is_elsewhere(lesson: OccasionPiece, environment: str, template: Template) -> bool:
    occasion = lesson.occasion
    is_other = occasion.cluster not in {None, template.cluster}
    return lesson.is_in_words and is_other and occasion.environment == environment


def _copy(lesson: OccasionPiece, template: Template, run: str) -> Captured:
    occasion = lesson.occasion.model_copy(update={"cluster": template.cluster, "intent": template.instruction})
    kind: PieceKind = lesson.kind
    return Captured(kind, occasion, None, lesson.title, lesson.text, (run,), min(1_000_000, max(0, lesson.rank)))
