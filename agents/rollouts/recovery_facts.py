"""Recovery of one run: its decisions and proposals as events, with their blobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eventlog.blobs import Blob
from eventlog.events import HintRecorded, ModelCalled, PromotionRule, RecoveryDecided, RewriteProposed

from ..executors.executor import Called
from ..learning.inspection import Inspector
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
