"""Transfer: what was promoted elsewhere, proposed for tasks that fail: lessons of clusters, changes of plans. Pure.

The copy is a piece of its own, with its own occasion and its own evidence. So each cluster, and each way to use what
was learned, decides for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from eventlog.events import PieceKind, Template

from ..plans import place_of
from .advice import is_tellable
from .capture import Captured
from .inspection_hints import hint_in_words
from .occasions import AnyPiece, OccasionPiece, planned_page
from .ranking import word_share
from .retrieval import anchor_pieces, overlay_memory

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


def say_promoted(environment: str, template: Template, pieces: Iterable[AnyPiece], run: str) -> tuple[Captured, ...]:
    """Promoted changes of a task's plan as hints in words, for an agent that follows none; `run` failed without them.

    Only what memory would apply to the plan is said. What is told as it is, and what has no words, is left out.
    """
    plan, found = template.plan_steps, dict[str, Captured]()
    silent = [each for each in pieces if not is_tellable(each, template, environment)]
    applied = {item.piece for item in overlay_memory(plan, template.instruction, environment, silent).applied}
    for piece in anchor_pieces(plan, template.instruction, environment, silent):
        place = place_of(plan, piece.anchor)
        if piece.piece not in applied or place is None:
            continue
        page, trust = planned_page(plan, place), min(1_000_000, max(0, piece.confidence))
        said = hint_in_words(environment, template, plan[place], piece.change, page, run, trust)
        if said is not None:
            found[said.name] = said
    return tuple(found[name] for name in sorted(found))


def _is_elsewhere(lesson: OccasionPiece, environment: str, template: Template) -> bool:
    occasion = lesson.occasion
    is_other = occasion.cluster not in {None, template.cluster}
    return lesson.is_in_words and is_other and occasion.environment == environment


def _copy(lesson: OccasionPiece, template: Template, run: str) -> Captured:
    occasion = lesson.occasion.model_copy(update={"cluster": template.cluster, "intent": template.instruction})
    kind: PieceKind = lesson.kind
    return Captured(kind, occasion, None, lesson.title, lesson.text, (run,), min(1_000_000, max(0, lesson.rank)))
