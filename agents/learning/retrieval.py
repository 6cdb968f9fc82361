"""Retrieval: assign occasion pieces to the steps of a plan, and apply all of memory to the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventlog.events import PieceKind, Step

from ..plans import Overlaid, Piece, Plan, apply_overlay
from .occasions import AnyPiece, OccasionPiece, fits
from .ranking import rank_texts
from .similarity import Embeddings, blend_scores

_KINDS: Final[tuple[PieceKind, ...]] = ("hint", "exemplar", "snippet", "recipe")
_INSTRUCTION_SHARE: Final = 4
"""Divisor of the instruction's score: a match with the instruction counts a quarter of a match with the step."""


def retrieve(plan: Plan, instruction: str, environment: str, lessons: Iterable[OccasionPiece]) -> tuple[Piece, ...]:
    """Occasion pieces for a plan, each at the one step that it fits best; at most one of each kind per step.

    The best fit has exactly the step's intent, then the highest score (words shared with the step and, with a model,
    similar meaning), then the higher rank, more wins, and the id. Inserted steps go beside the step with exactly the
    occasion's intent, else beside the first that matches the occasion. The order of `lessons` does not matter.
    """
    known = sorted(set(lessons), key=lambda lesson: lesson.piece)
    return tuple(
        piece
        for kind in _KINDS
        for piece in _of_kind(plan, instruction, environment, [each for each in known if each.kind == kind])
    )


def overlay_memory(
    plan: Plan, instruction: str, environment: str, held: Sequence[AnyPiece], candidate: AnyPiece | None = None
) -> Overlaid:
    """Apply memory to a plan; the candidate on trial takes precedence over all other pieces.

    The candidate is placed as if memory were empty, so that its trial does not depend on other pieces.
    """
    forced = _place(plan, instruction, environment, candidate)
    others = [each for each in held if forced is None or each.piece != forced.piece]
    return apply_overlay(plan, anchor_pieces(plan, instruction, environment, others), forced=forced)


def anchor_pieces(plan: Plan, instruction: str, environment: str, held: Sequence[AnyPiece]) -> tuple[Piece, ...]:
    """Pieces of memory, each anchored to its step of the plan; occasion pieces that fit no step are left out."""
    pieces = (each for each in held if isinstance(each, Piece))
    lessons = [each for each in held if isinstance(each, OccasionPiece)]
    return (*pieces, *retrieve(plan, instruction, environment, lessons))


def _place(plan: Plan, instruction: str, environment: str, candidate: AnyPiece | None) -> Piece | None:
    if isinstance(candidate, OccasionPiece):
        return next(iter(retrieve(plan, instruction, environment, [candidate])), None)
    return candidate


def _of_kind(plan: Plan, instruction: str, environment: str, lessons: Sequence[OccasionPiece]) -> Iterator[Piece]:
    by_id = {each.piece: each for each in lessons}
    taken: set[int] = set()
    placed: set[str] = set()
    found = _score_steps(plan, instruction, environment, lessons)
    for _, _, _, _, name, place in sorted(found):
        if name not in placed and place not in taken:
            taken.add(place)
            placed.add(name)
            yield by_id[name].at(plan, place)


def _score_steps(
    plan: Plan, instruction: str, environment: str, lessons: Sequence[OccasionPiece]
) -> Iterator[tuple[bool, int, int, int, str, int]]:
    """Yield a sort key for each pair of a piece and a step that it fits; the best fit sorts first.

    A key holds: the intents differ, then negated score, rank and wins, then id and place.
    """
    texts = {each.piece: each.words for each in lessons}
    of_task = dict(rank_texts(instruction, texts))
    places = {each.piece: _places(plan, environment, each) for each in lessons}
    found: list[tuple[int, OccasionPiece, int]] = []
    for place, step in enumerate(plan):
        of_step = dict(rank_texts(_step_text(step), texts))
        for each in lessons:
            if place in places[each.piece]:
                shared = of_step.get(each.piece, 0) + of_task.get(each.piece, 0) // _INSTRUCTION_SHARE
                found.append((place, each, shared))
    most = max((shared for _, _, shared in found), default=0)
    for place, each, shared in found:
        step = plan[place]
        model = each.embeddings
        score = shared if model is None else blend_scores(shared, most, _likeness(model, each, step, instruction))
        yield not _is_said(each, step), -score, -each.rank, -each.wins, each.piece, place


def _likeness(model: Embeddings, lesson: OccasionPiece, step: Step, instruction: str) -> int:
    """Similarity of a piece to a step, plus a quarter of its similarity to the task's instruction."""
    of_task = model.likeness(instruction, lesson.words) // _INSTRUCTION_SHARE
    return model.likeness(_step_text(step), lesson.words) + of_task


def _step_text(step: Step) -> str:
    return f"{step.intent} {step.label or ''} {step.url or ''}"


def _places(plan: Plan, environment: str, lesson: OccasionPiece) -> Sequence[int]:
    """Indices of the steps that a piece fits; only the best one if the piece inserts steps."""
    # An overlay finds the first of two equal steps.
    found = [n for n, step in enumerate(plan) if step not in plan[:n] and fits(lesson, environment, plan, n)]
    if not lesson.is_put_in:
        return found
    return sorted(found, key=lambda n: not _is_said(lesson, plan[n]))[:1]


def _is_said(lesson: OccasionPiece, step: Step) -> bool:
    return lesson.occasion.intent == step.intent
