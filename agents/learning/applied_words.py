"""What memory applies to a plan, in words, for a model that reads no plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventlog.events import Template

from ..plans import place_of
from .advice import BUDGET, fill_budget, is_tellable
from .capture import Captured
from .inspection_hints import hint_in_words
from .occasions import AnyPiece, planned_page
from .quoting import clean_text
from .retrieval import anchor_pieces, overlay_memory

_WHOLE = 1_000_000


def say_changes(environment: str, template: Template, pieces: Sequence[AnyPiece], run: str) -> dict[str, Captured]:
    """The pieces that memory applies to a task's plan as hints, by piece, in the order of the plan's steps.

    What has no words is left out. `run` is the run that shows them.
    """
    plan, found = template.plan_steps, dict[str, Captured]()
    overlaid = overlay_memory(plan, template.instruction, environment, pieces)
    anchored = {each.piece: each for each in anchor_pieces(plan, template.instruction, environment, pieces)}
    for item in overlaid.applied:
        piece = anchored[item.piece]
        place = place_of(plan, piece.anchor)
        if place is None:
            continue
        page, trust = planned_page(plan, place), min(_WHOLE, max(0, piece.confidence))
        said = hint_in_words(environment, template, plan[place], piece.change, page, run, trust)
        if said is not None:
            found[item.piece] = said
    return found


def say_promoted(environment: str, template: Template, pieces: Iterable[AnyPiece], run: str) -> tuple[Captured, ...]:
    """Promoted changes of a task's plan as candidates in words; `run` failed without them.

    What models are told as it is is left out.
    """
    silent = [each for each in pieces if not is_tellable(each, template, environment)]
    said = {each.name: each for each in say_changes(environment, template, silent, run).values()}
    return tuple(said[name] for name in sorted(said))


def applied_advice(
    environment: str, template: Template, pieces: Sequence[AnyPiece], budget: int = BUDGET
) -> tuple[str, ...]:
    """What memory applies to a task's plan as lines of advice, in the order of the steps, within the bounds of advice.

    A piece that models are told is said in its own words.
    """
    told = {each.piece: each.text for each in pieces if is_tellable(each, template, environment)}
    said = say_changes(environment, template, pieces, "")
    lines = dict.fromkeys(clean_text(told.get(name, hint.text)) for name, hint in said.items())
    return tuple(fill_budget(budget, lines, lambda line: line))
