"""Whether a decision is followed, and what is told to a manager whose decision is not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.events import LoopConfig
from projections.delegation.loop_state import LoopState, SubtaskState

from .decisions import KINDS, DecisionKind, DelegateDecision, DiagnoseDecision, PlanDecision
from .diagnosis import diagnosis_refusal
from .envelopes import Envelope, delegation_signature, fan_out
from .plan import PlanStep, Subtask, blocked_by_plan, plan_fault

MOST_IDLE: Final = 5
"""After so many decisions in a row that were not followed, or were none, a loop ends."""

MOST_PLANS: Final = 2


@dataclass(frozen=True, slots=True)
class WorkerDispatch:
    """The envelopes that a delegation runs, how many wait, and why none runs (empty if some do)."""

    runs: tuple[Envelope, ...]
    deferred: int
    refusal: str
    signature: str


def offered_decisions(config: LoopConfig) -> tuple[DecisionKind, ...]:
    """The decisions that a configuration offers a manager."""
    off = {
        *(() if config.planning.enabled else ("plan",)),
        *(() if config.planning.enabled and config.planning.diagnosis else ("diagnose",)),
    }
    return tuple(kind for kind in KINDS if kind not in off)


def dispatch(decision: DelegateDecision, state: LoopState, config: LoopConfig) -> WorkerDispatch:
    """What a delegation runs: what its plan allows, within the most workers of an iteration."""
    signature = delegation_signature(decision.delegations)
    if signature in state.signatures and _was_weak(state, config):
        return WorkerDispatch(
            (), 0, "the same delegation was made before and its result was weak; change it", signature
        )
    blocked = blocked_by_plan(decision.delegations, plan_steps(state.plan))
    open_ones = tuple(each for each in decision.delegations if each not in blocked)
    if not open_ones:
        waiting = ", ".join(sorted({each.subtask_id for each in blocked}))
        return WorkerDispatch((), 0, f"the plan is not that far: {waiting} waits for other subtasks", signature)
    split = fan_out(open_ones, config.budget.max_workers_per_iteration)
    return WorkerDispatch(split.runs, len(split.deferred) + len(blocked), "", signature)


def plan_refusal(decision: PlanDecision, state: LoopState, config: LoopConfig) -> str:
    """Why a plan is not taken: it cannot be followed, it has begun, or it is changed again and again."""
    fault = plan_fault(decision.subtasks, config.planning.max_subtasks)
    if fault is not None:
        return fault.why
    if any(each.tries for each in state.plan) and any(each.status != "completed" for each in state.plan):
        return "the plan has begun and stays; delegate its subtasks"
    kinds = [each.kind for each in state.decisions[-MOST_PLANS:]]
    return "the plan was made twice in a row; delegate instead" if kinds == ["plan"] * MOST_PLANS else ""


def diagnose_refusal(decision: DiagnoseDecision, state: LoopState, config: LoopConfig) -> str:
    """Why a diagnosis is not taken."""
    if len(decision.hypotheses) > config.planning.max_hypotheses:
        return f"{len(decision.hypotheses)} hypotheses; expected at most {config.planning.max_hypotheses}"
    kinds = [each.kind for each in state.decisions if not each.refusal]
    return diagnosis_refusal(kinds, config.budget.max_loops) or ""


def is_idle(state: LoopState) -> bool:
    """True if the last decisions of a manager led to nothing, so often that the loop ends."""
    recent = state.decisions[-MOST_IDLE:]
    return len(recent) == MOST_IDLE and all(each.refusal or each.kind == "invalid" for each in recent)


def plan_steps(plan: Sequence[SubtaskState]) -> tuple[PlanStep, ...]:
    """The plan of a loop's state."""
    return tuple(
        PlanStep(
            Subtask(
                id=each.subtask,
                description=each.description,
                dependencies=each.dependencies,
                success_criteria=each.success_criteria,
            ),
            each.status,  # type: ignore[arg-type]
            each.tries,
        )
        for each in plan
    )


def fails_gracefully(state: LoopState) -> bool:
    """True if what a loop has is of use although its manager gives up."""
    critiques = state.history[-1].critiques if state.history else ()
    return bool(state.history) and (not critiques or sum(critiques) >= 500_000 * len(critiques))


def _was_weak(state: LoopState, config: LoopConfig) -> bool:
    critiques = state.history[-1].critiques if state.history else ()
    return bool(critiques) and sum(critiques) < config.critique.min_score_to_complete * len(critiques)
