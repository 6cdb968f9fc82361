"""Comparison of two memories by their effect on the plans and prompts of some tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventlog.events import Applied, Template

from ..plans import Overlaid, Piece
from .advice import Audience, advice_lines, applied_of, worth_telling
from .occasions import AnyPiece
from .retrieval import overlay_memory

Given = tuple[Overlaid | None, tuple[str, ...], tuple[Applied, ...]]


def is_same_for(
    templates: Iterable[Template],
    environment: str,
    one: Sequence[AnyPiece],
    other: Sequence[AnyPiece],
    audience: Audience | None = None,
) -> bool:
    """True if two memories give the runs of these tasks the same plans and the same advice.

    With an `audience`, the runs are those of an executor that is told memory, and advice alone counts. Without
    one, lessons in words do not count, because only runs that are told them can judge them.
    """
    return all(
        _effect_on(each, environment, one, audience) == _effect_on(each, environment, other, audience)
        for each in templates
    )


def _effect_on(template: Template, environment: str, held: Sequence[AnyPiece], audience: Audience | None) -> Given:
    """A task's plan with memory applied (None for executors that are told memory), and the advice about it."""
    if audience is not None:
        told = worth_telling(template, environment, held, audience)
        return None, advice_lines(told), applied_of(told)
    told = worth_telling(template, environment, [each for each in held if isinstance(each, Piece) or each.change])
    plan = overlay_memory(template.plan_steps, template.instruction, environment, held)
    return plan, advice_lines(told), applied_of(told)
