"""Comparison of two memories by their effect on the plans and prompts of some tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventlog.events import Applied, Template

from ..plans import Overlaid
from .advice import advice_lines, applied_of, worth_telling
from .occasions import AnyPiece
from .retrieval import overlay_memory

Given = tuple[Overlaid, tuple[str, ...], tuple[Applied, ...]]


def is_same_for(
    templates: Iterable[Template], environment: str, one: Sequence[AnyPiece], other: Sequence[AnyPiece]
) -> bool:
    """True if two memories give the runs of these tasks the same plans and the same advice."""
    return all(_effect_on(each, environment, one) == _effect_on(each, environment, other) for each in templates)


def _effect_on(template: Template, environment: str, held: Sequence[AnyPiece]) -> Given:
    """A task's plan with memory applied, and the advice that a policy is told."""
    told = worth_telling(template.instruction, environment, held)
    plan = overlay_memory(template.plan_steps, template.instruction, environment, held)
    return plan, advice_lines(told), applied_of(told)
