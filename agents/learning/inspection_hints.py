"""Hints by looking: a model's failed run as a plan that recovery can inspect, and what it finds in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from eventlog.events import Change, InsertSteps, Occasion, Step, StepType, Template

from ..plans import Plan, apply_change, apply_overlay
from .capture import Captured
from .occasions import planned_page
from .piece_content import page_pattern
from .quoting import LONGEST, clean_text
from .recovery.failing import Failing, failed_run
from .recovery.proposal import Proposal
from .step_words import say_step

_WALKED: Final[frozenset[StepType]] = frozenset({"navigate", "click", "fill_field", "select_option", "submit"})
"""Steps that a plan can have; those of a window and the end of a run are left out."""


def failing_steps(environment: str, taken: Sequence[tuple[Step, bool]], most: int) -> Failing | None:
    """A failed run's own steps as a plan, up to the first that failed; None if it took none that a plan can have.

    `taken` are its steps and whether each succeeded. The intent of each is what it acts on, because a model says of
    none what it is for.
    """
    walked = [(step, is_ok) for step, is_ok in taken if step.type in _WALKED][:most]
    at = next((number for number, (_, is_ok) in enumerate(walked) if not is_ok), None)
    kept = walked if at is None else walked[: at + 1]
    plan: Plan = tuple(step.model_copy(update={"intent": step.label or step.url or step.type}) for step, _ in kept)
    if not plan:
        return None
    return failed_run(environment, plan, lambda piece: apply_overlay(plan, (), forced=piece), at, len(plan))


def say_proposals(run: str, failing: Failing, template: Template, found: Iterable[Proposal]) -> dict[str, Captured]:
    """Proposals of recovery as hints in words, by the id of the proposal; one that has no words is left out."""
    lessons: dict[str, Captured] = {}
    for proposal in found:
        step, page = failing.plan[proposal.place], planned_page(failing.plan, proposal.place)
        if proposal.occasion is not None:
            page = proposal.occasion.page
        hint = hint_in_words(failing.environment, template, step, proposal.change, page, run, proposal.confidence)
        if hint is not None:
            lessons[proposal.name] = hint
    return lessons


def hint_in_words(
    environment: str, template: Template, step: Step, change: Change, page: str, run: str, confidence: int
) -> Captured | None:
    """A change of a step as a hint for the task's cluster, found on a page ("" if unknown); None if it has no words."""
    said = say_change(step, change, template.instruction)
    if said is None:
        return None
    occasion = Occasion(
        environment=environment,
        type=step.type,
        intent=template.instruction,
        page=page_pattern(page),
        cluster=template.cluster,
    )
    text = clean_text(f"On {occasion.page}: {said}." if occasion.page else f"{said[0].upper()}{said[1:]}.", LONGEST)
    return Captured("hint", occasion, None, "", text, (run,), confidence, source="recovery")


def say_change(step: Step, change: Change, instruction: str) -> str | None:
    """A change of a step in words for an agent that follows no plan; None if they mean nothing elsewhere."""
    old = say_step(step, instruction)
    if old is None:
        return None
    match change:
        case InsertSteps():
            said = _say(change.steps, instruction)
            return None if said is None else f"{change.where} you {old}: {said}"
        case _:
            said = _say(apply_change(step, change), instruction)
            return None if said is None else f"{said}, not: {old}"


def _say(steps: Iterable[Step], instruction: str) -> str | None:
    said = [say_step(step, instruction) for step in steps]
    return None if None in said else ", then ".join(filter(None, said))
