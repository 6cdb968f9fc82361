"""Recovery of one run: what it decided and what it proposes, as facts with their blobs."""

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
    """What recovery left: its facts, what it proposes, and the blobs that this names."""

    decided: tuple[ModelCalled | RecoveryDecided, ...] = ()
    proposals: tuple[RewriteProposed | HintRecorded, ...] = ()
    contents: tuple[Blob, ...] = ()


NOTHING: Final = Recovery()


@dataclass(frozen=True, slots=True)
class Looking:
    """How failed runs are looked over: what may be done for each, which model is asked, which rule decides."""

    budgets: Budgets
    model: Model | None
    rule: PromotionRule


def recover_run(name: str, run: Failing, inspector: Inspector, looking: Looking, calls: int) -> Recovery:
    """Look a failed run over. What the environment fails in afterwards takes nothing from the run or earlier looks.

    `calls` is how many calls of models the run has made itself.
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
