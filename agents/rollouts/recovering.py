"""Recovery of one run: what it decided and what it proposes, as facts with their blobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eventlog.blobs import Blob
from eventlog.events import HintRecorded, PromotionRule, RecoveryDecided, RewriteProposed

from ..envs.errors import EnvironmentFailure
from ..learning.recovery.budgets import Budgets
from ..learning.recovery.failing import Failing
from ..learning.recovery.recover import recover
from ..learning.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Recovery:
    """What recovery left: its facts, what it proposes, and the blobs that this names."""

    decided: tuple[RecoveryDecided, ...] = ()
    proposals: tuple[RewriteProposed | HintRecorded, ...] = ()
    contents: tuple[Blob, ...] = ()


NOTHING: Final = Recovery()


def recovered(name: str, run: Failing, surroundings: Surroundings, budgets: Budgets, rule: PromotionRule) -> Recovery:
    """Look a failed run over. What the environment fails in afterwards takes nothing from the run."""
    if not run.turns:
        return NOTHING
    try:
        found = recover(name, run, surroundings, budgets)
    except EnvironmentFailure:
        return NOTHING
    return Recovery(
        found.decided,
        tuple(proposal.event(name, rule) for proposal in found.proposals),
        tuple(proposal.content for proposal in found.proposals if proposal.occasion is not None),
    )
