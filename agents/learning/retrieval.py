"""Retrieval: which lessons help at which steps of a plan, and the plan with all of memory applied. Pure."""

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
"""What an instruction shares with a lesson counts a quarter of what the step itself does."""


def retrieve(plan: Plan, instruction: str, environment: str, lessons: Iterable[OccasionPiece]) -> tuple[Piece, ...]:
    """The lessons that a plan is given, each at the one step that it fits best; of each kind one a step at most.

    Best is what was recorded at a step that says the very same, then what shares most with the step (and, with a model,
    means most like it), then what ranks higher, then the id. Steps that are put in are put in beside the step that says
    the very same, else beside the first that is like their occasion. The order of `lessons` does not matter.
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
    """A plan with what memory holds, and the one piece on trial before all else.

    The candidate is placed as if nothing else were remembered, so that what it tries does not hang on the others.
    """
    forced = _place(plan, instruction, environment, candidate)
    others = [each for each in held if forced is None or each.piece != forced.piece]
    return apply_overlay(plan, _anchor_pieces(plan, instruction, environment, others), forced=forced)


def _anchor_pieces(plan: Plan, instruction: str, environment: str, held: Sequence[AnyPiece]) -> tuple[Piece, ...]:
    """What memory holds, each at the step of the plan that it belongs to; lessons that fit none are left out."""
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
    """Every step that a lesson may be given at, in the order in which they are.

    First whether it is merely like the occasion, then score, rank, wins, id and place.
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
    """How much a lesson means what a step does, and a quarter of how much it means what the task is."""
    of_task = model.likeness(instruction, lesson.words) // _INSTRUCTION_SHARE
    return model.likeness(_step_text(step), lesson.words) + of_task


def _step_text(step: Step) -> str:
    return f"{step.intent} {step.label or ''} {step.url or ''}"


def _places(plan: Plan, environment: str, lesson: OccasionPiece) -> Sequence[int]:
    """The steps that a lesson may be given at; the one beside which its steps are put in, where it puts in some."""
    # An overlay finds the first of two equal steps.
    found = [n for n, step in enumerate(plan) if step not in plan[:n] and fits(lesson, environment, plan, n)]
    if not lesson.is_put_in:
        return found
    return sorted(found, key=lambda n: not _is_said(lesson, plan[n]))[:1]


def _is_said(lesson: OccasionPiece, step: Step) -> bool:
    return lesson.occasion.intent == step.intent
