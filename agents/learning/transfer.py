"""Transfer: a lesson that was promoted in one cluster or on one site, proposed for failing tasks of another. Pure.

The copy is a piece of its own, with its own occasion and its own evidence. So each cluster decides for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from eventlog.events import PieceKind, Template

from .capture import Captured
from .occasions import OccasionPiece
from .ranking import word_share

LEAST_SHARE: Final = 250_000
"""Least share of an instruction's words (millionths) that a lesson must have to be tried in another cluster."""

LEAST_SHARE_ELSEWHERE: Final = 500_000
"""The same for a lesson of another site: there is less that it could know of this one."""


def transfer(
    environment: str,
    lessons: Iterable[OccasionPiece],
    failing: Iterable[Template],
    runs: Mapping[str, str],
    decided: Collection[str] = (),
) -> tuple[Captured, ...]:
    """For each failing task the promoted lesson of another cluster or site that shares most words with it, if any does.

    Lessons of the same site go before those of others, and of each those whose copy is not among the `decided` pieces,
    which had their trials, before the rest. Skills and instructions are not copied.
    `runs` names a failed run of each failing template, by id: it proposes the copy, and so is no evidence about it.
    """
    held = sorted(set(lessons), key=lambda each: each.piece)
    found: dict[str, Captured] = {}
    for template in sorted(failing, key=lambda each: each.template_id):
        shares = {each.piece: word_share(template.instruction, each.words) for each in held}
        fitting = [each for each in held if _fits(each, environment, template, shares[each.piece])]
        if fitting:
            near = [each for each in fitting if not _is_foreign(each, environment)]
            ordered = sorted(near or fitting, key=lambda each: (-shares[each.piece], -each.wins, each.piece))
            copies = [_copy(each, environment, template, runs[template.template_id]) for each in ordered]
            copy = next((each for each in copies if each.name not in decided), copies[0])
            found.setdefault(copy.name, copy)
    return tuple(found[name] for name in sorted(found))


def _is_foreign(lesson: OccasionPiece, environment: str) -> bool:
    return lesson.occasion.environment != environment


def _fits(lesson: OccasionPiece, environment: str, template: Template, share: int) -> bool:
    """True if a lesson in words of another cluster or site shares enough words with a task."""
    if not lesson.is_in_words:
        return False
    if _is_foreign(lesson, environment):
        return share >= LEAST_SHARE_ELSEWHERE
    return lesson.occasion.cluster not in {None, template.cluster} and share >= LEAST_SHARE


def _copy(lesson: OccasionPiece, environment: str, template: Template, run: str) -> Captured:
    place = {"environment": environment, "cluster": template.cluster, "intent": template.instruction}
    occasion = lesson.occasion.model_copy(update=place)
    kind: PieceKind = lesson.kind
    return Captured(kind, occasion, None, lesson.title, lesson.text, (run,), min(1_000_000, max(0, lesson.rank)))
