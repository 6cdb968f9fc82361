"""Whether another memory changes anything for some tasks. Pure."""

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
    """Whether runs of these tasks are given the same by two memories, whoever plays them."""
    return all(_effect_on(each, environment, one) == _effect_on(each, environment, other) for each in templates)


def _effect_on(template: Template, environment: str, held: Sequence[AnyPiece]) -> Given:
    """What memory makes of a task's plan, and what a policy is told of it."""
    told = worth_telling(template.instruction, environment, held)
    plan = overlay_memory(template.plan_steps, template.instruction, environment, held)
    return plan, advice_lines(told), applied_of(told)
