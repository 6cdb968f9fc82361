"""Rules by which a decision is followed or refused, and the answer to a manager whose decision is refused. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.events import LoopConfig
from projections.delegation.loop_state import LoopState, SubtaskState

from .decisions import KINDS, DecisionKind, DelegateDecision, DiagnoseDecision, ManagerDecision, PlanDecision
from .diagnosis import diagnosis_refusal, tester_of
from .envelopes import Envelope, assign_subtasks, delegation_signature, fan_out, name_workers_once
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
    """The workers that a delegation runs: those its plan allows, within the most workers of an iteration."""
    steps = plan_steps(state.plan)
    envelopes = envelopes_of(decision, steps)
    signature = delegation_signature(envelopes, {name: each.result for name, each in state.latest.items()})
    if signature in state.signatures and _was_weak(state, config):
        return WorkerDispatch(
            (), 0, "the same delegation was made before and its result was weak; change it", signature
        )
    blocked = blocked_by_plan(envelopes, steps)
    open_ones = tuple(each for each in envelopes if each not in blocked)
    if not open_ones:
        waiting = ", ".join(sorted({each.subtask_id for each in blocked}))
        return WorkerDispatch((), 0, f"the plan is not that far: {waiting} waits for other subtasks", signature)
    split = fan_out(open_ones, config.budget.max_workers_per_iteration)
    return WorkerDispatch(split.runs, len(split.deferred) + len(blocked), "", signature)


def envelopes_of(decision: ManagerDecision | None, steps: Sequence[PlanStep]) -> tuple[Envelope, ...]:
    """The envelopes of a decision: what it delegates, or a diagnostic worker for each hypothesis."""
    match decision:
        case DelegateDecision():
            return assign_subtasks(decision.delegations, [each.subtask.id for each in steps])
        case DiagnoseDecision():
            return name_workers_once(tester_of(each.id, each.cause, each.test) for each in decision.hypotheses)
        case _:
            return ()


def is_to_be_judged(state: LoopState) -> bool:
    """True if all workers of a delegation have returned. What diagnostic workers return is no progress to judge."""
    is_over = bool(state.returned) and not state.running
    return is_over and bool(state.decisions) and state.decisions[-1].kind == "delegate"


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


def may_diagnose(state: LoopState, config: LoopConfig) -> bool:
    """True if a manager may diagnose next."""
    kinds = [each.kind for each in state.decisions if not each.refusal]
    return "diagnose" in offered_decisions(config) and diagnosis_refusal(kinds, config.budget.max_loops) is None


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
