"""Recovery of one run: its decisions and proposals as events, with their blobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eventlog.blobs import Blob
from eventlog.events import HintRecorded, ModelCalled, PromotionRule, RecoveryDecided, RewriteProposed, Template

from ..executors.executor import Called, Execution
from ..learning.capture import Captured
from ..learning.inspection import Inspector
from ..learning.inspection_hints import failing_steps, say_proposals
from ..learning.recovery.budgets import Budgets
from ..learning.recovery.failing import Failing
from ..learning.recovery.recover import recover
from ..models.model import Model
from .facts import Facts, call_facts


@dataclass(frozen=True, slots=True)
class Recovery:
    """Result of recovery: events of its decisions, events of its proposals, and their blobs."""

    decided: tuple[ModelCalled | RecoveryDecided, ...] = ()
    proposals: tuple[RewriteProposed | HintRecorded, ...] = ()
    contents: tuple[Blob, ...] = ()


NOTHING: Final = Recovery()


@dataclass(frozen=True, slots=True)
class Looking:
    """Settings of recovery: its budgets, the model to ask, and the promotion rule of its proposals."""

    budgets: Budgets
    model: Model | None
    rule: PromotionRule


def look_for_hints(
    name: str, environment: str, template: Template, execution: Execution, inspector: Inspector, looking: Looking
) -> Recovery:
    """Run recovery on the steps that a model took in a failed run, and say what it finds as hints in words.

    No model is asked. If the environment fails meanwhile, earlier hints are kept.
    """
    taken = [(each.step, not each.is_failed) for each in execution.taken]
    run = failing_steps(environment, taken, template.max_steps)
    if run is None:
        return NOTHING
    found = recover(name, run, inspector, looking.budgets)
    lessons = say_proposals(name, run, template, found.proposals)
    decided = [_with_lessons(event, lessons) for event in found.decided]
    return Recovery(
        tuple(decided),
        tuple(_hint(lesson, looking.rule) for lesson in {each.name: each for each in lessons.values()}.values()),
        tuple(lesson.content for lesson in lessons.values()),
    )


def _with_lessons(event: RecoveryDecided, lessons: Mapping[str, Captured]) -> RecoveryDecided:
    """A decision that names the lessons in place of the changes that they say."""
    names = dict.fromkeys(lessons[name].name for name in event.proposed if name in lessons)
    return event.model_copy(update={"proposed": tuple(names)})


def _hint(lesson: Captured, rule: PromotionRule) -> HintRecorded:
    event = lesson.event(rule)
    if not isinstance(event, HintRecorded):
        raise TypeError(f"{lesson.kind} is not a hint")
    return event


def recover_run(name: str, run: Failing, inspector: Inspector, looking: Looking, calls: int) -> Recovery:
    """Run recovery for a failed run. If the environment fails meanwhile, earlier proposals are kept.

    `calls` is the number of model calls that the run itself made.
    """
    if not run.turns:
        return NOTHING
    found = recover(name, run, inspector, looking.budgets, looking.model)
    asked = Facts((), ())
    if found.exchange is not None:
        asked = call_facts(name, calls, Called("recovery", None, found.exchange.request, found.exchange.completion))
    contents = (proposal.content for proposal in found.proposals if proposal.occasion is not None)
    return Recovery(
        (*(event for event in asked.events if isinstance(event, ModelCalled)), *found.decided),
        tuple(proposal.event(name, looking.rule) for proposal in found.proposals),
        (*asked.blobs, *contents),
    )
