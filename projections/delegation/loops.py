"""Delegation loops: what each decided, what its workers returned, its plan, its end. One key and one stream a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ..engine.projection import EventRow, Fold
from .budgets import loop_stream
from .loop_state import Decided, Delegated, HypothesisState, LoopState, SubtaskState, WorkerResult

KEPT_RESULTS = 64
"""The latest results of so many workers are kept by name."""

KEPT_DECISIONS = 200
KEPT_SIGNATURES = 50
KEPT_REJECTIONS = 20


def _open(row: EventRow) -> LoopState:
    return LoopState(
        loop=row.text("loop"),
        task=row.text("task"),
        task_line=row.text("task_line"),
        manager=row.text("manager"),
        worker=row.text("worker"),
        config=row.record("config"),
        seed=row.number("seed"),
        parent=row.maybe_text("parent"),
        root=row.text("root"),
        depth=row.number("depth"),
        graded=row.flag("graded"),
        grader=row.maybe_text("grader"),
        validator=row.maybe_text("validator"),
        commands_known=row.flag("commands_known"),
        prompts=row.maybe_text("prompts"),
        refines=row.maybe_text("refines"),
        sandbox=row.text("sandbox"),
        offered_skills=tuple(row.records("skills")),
        offered_tools=tuple(row.records("tools")),
        status="open",
        opened_at=row.moment,
        since=row.position,
    )


def _decide(state: LoopState, row: EventRow) -> LoopState:
    kind, refusal, at = row.text("decision"), row.text("refusal"), row.number("iteration")
    decided = Decided(iteration=at, kind=kind, rationale=row.text("reasoning"), refusal=refusal)
    after = replace(
        state,
        iteration=at,
        answer=row.text("answer"),
        decisions=(*state.decisions, decided)[-KEPT_DECISIONS:],
        invalid=state.invalid + 1 if kind == "invalid" else 0,
        deferred=row.number("deferred"),
        running=tuple(row.records("workers")),
        returned=(),
        critique_tokens=_critique_tokens(state),
        feedback=refusal,
        since=row.position,
    )
    if refusal:
        return after
    if kind == "plan":
        return replace(after, plan=tuple(_subtask(each) for each in row.records("subtasks")))
    if kind == "diagnose":
        return replace(after, hypotheses=tuple(_hypothesis(each) for each in row.records("hypotheses")))
    if kind == "delegate":
        signatures = (*state.signatures, row.text("signature"))[-KEPT_SIGNATURES:]
        return replace(after, signatures=signatures, rejections=())
    return after


def _subtask(facts: dict[str, Any]) -> SubtaskState:
    return SubtaskState(
        subtask=facts["subtask"],
        description=facts["description"],
        dependencies=tuple(facts["dependencies"]),
        success_criteria=facts["success_criteria"],
    )


def _hypothesis(facts: dict[str, Any]) -> HypothesisState:
    return HypothesisState(hypothesis=facts["hypothesis"], cause=facts["cause"], test=facts["test"])


def _return(state: LoopState, row: EventRow) -> LoopState:
    result = WorkerResult(
        worker=row.text("worker"),
        iteration=row.number("iteration"),
        status=row.text("status"),
        confidence=row.number("confidence"),
        finding=row.text("finding"),
        result=row.text("result"),
        critique=row.maybe_number("critique"),
        source=row.text("source"),
        defects=tuple(row.records("defects")),
        critique_tokens=row.number("critique_tokens"),
    )
    latest = {name: each for name, each in state.latest.items() if name != result.worker}
    kept = list({**latest, result.worker: result}.items())[-KEPT_RESULTS:]
    return replace(
        state,
        running=tuple(name for name in state.running if name != result.worker),
        returned=(*state.returned, result),
        latest=dict(kept),
        plan=_plan_after(state.plan, row.text("subtask"), row.maybe_text("subtask_status")),
        hypotheses=_hypotheses_after(state.hypotheses, row.text("hypothesis"), row.maybe_text("hypothesis_status")),
        since=row.position,
    )


def _plan_after(plan: tuple[SubtaskState, ...], subtask: str, status: str | None) -> tuple[SubtaskState, ...]:
    return tuple(
        replace(each, status=status or each.status, tries=each.tries + 1) if each.subtask == subtask else each
        for each in plan
    )


def _hypotheses_after(
    found: tuple[HypothesisState, ...], named: str, status: str | None
) -> tuple[HypothesisState, ...]:
    return tuple(replace(each, status=status or each.status) if each.hypothesis == named else each for each in found)


def _signal(state: LoopState, row: EventRow) -> LoopState:
    ordered = sorted(state.returned, key=lambda each: each.worker)
    judged = [each.confidence for each in ordered if each.source != "missing"]
    weakest = min(ordered, key=lambda each: each.confidence, default=None)
    defects = [each for result in ordered for each in result.defects if each["severity"] != "info"]
    done = Delegated(
        iteration=row.number("iteration"),
        confidence=row.number("confidence"),
        findings="; ".join(each.finding for each in ordered),
        critiques=tuple(each.critique for each in ordered if each.critique is not None),
        judged=sum(judged) // len(judged) if judged else None,
        least=1_000_000 if weakest is None else weakest.confidence,
        weakest="" if weakest is None else weakest.worker,
        defects=tuple(sorted({each["category"] for each in defects})),
        critical=tuple(sorted({each["category"] for each in defects if each["severity"] == "critical"})),
        planned=_share_of_plan(state.plan),
    )
    confidences = tuple(each.confidence for each in ordered)
    decisions = (*state.decisions[:-1], *(replace(last, confidences=confidences) for last in state.decisions[-1:]))
    history = (*state.history, done)
    tokens = _critique_tokens(state)
    return replace(
        state,
        history=history,
        decisions=decisions,
        running=(),
        returned=(),
        critique_tokens=tokens,
        since=row.position,
    )


def _critique_tokens(state: LoopState) -> int:
    return state.critique_tokens + sum(each.critique_tokens for each in state.returned)


def _share_of_plan(plan: tuple[SubtaskState, ...]) -> int | None:
    """How much of a plan is done, in millionths; None without a plan."""
    return sum(each.status == "completed" for each in plan) * 1_000_000 // len(plan) if plan else None


def _switch(state: LoopState, row: EventRow) -> LoopState:
    return replace(state, strategy=row.text("strategy"), since=row.position)


def _reject(state: LoopState, row: EventRow) -> LoopState:
    why = f"{row.text('gate')}: {row.text('why')}"
    kept = (*state.rejections, why)[-KEPT_REJECTIONS:]
    return replace(state, rejections=kept, rejected=state.rejected + 1, feedback=why, since=row.position)


def _ask(state: LoopState, row: EventRow) -> LoopState:
    return replace(state, status="waiting", question=row.text("question"), since=row.position)


def _answer(state: LoopState, row: EventRow) -> LoopState:
    return replace(state, status="open", answered=row.text("answer"), since=row.position)


def _reserve(state: LoopState, row: EventRow) -> LoopState:
    child = row.maybe_text("child")
    is_new = child is not None and child not in state.children
    return replace(state, children=(*state.children, str(child))) if is_new else state


def _close(state: LoopState, row: EventRow) -> LoopState:
    return replace(
        state,
        status=row.text("status"),
        reason=row.text("reason"),
        confidence=row.number("confidence"),
        result=row.text("result"),
        running=(),
        since=row.position,
    )


_STEPS: dict[str, Callable[[LoopState, EventRow], LoopState]] = {
    "LoopOpened": lambda _state, row: _open(row),
    "IterationDecided": _decide,
    "WorkerReturned": _return,
    "StallSignalled": _signal,
    "StrategySwitched": _switch,
    "CompletionRejected": _reject,
    "EscalationAsked": _ask,
    "EscalationAnswered": _answer,
    "BudgetReserved": _reserve,
    "LoopClosed": _close,
}


def _fold(state: LoopState, row: EventRow) -> LoopState:
    return _STEPS[row.type](state, row)


LOOPS = Fold(
    name="loops",
    version=5,
    reads={
        "LoopOpened": (
            "loop",
            "task",
            "task_line",
            "manager",
            "worker",
            "config",
            "seed",
            "parent",
            "root",
            "depth",
            "graded",
            "grader",
            "validator",
            "commands_known",
            "prompts",
            "refines",
            "sandbox",
            "skills",
            "tools",
        ),
        "IterationDecided": (
            "loop",
            "iteration",
            "decision",
            "reasoning",
            "answer",
            "workers",
            "deferred",
            "refusal",
            "signature",
            "subtasks",
            "hypotheses",
        ),
        "WorkerReturned": (
            "loop",
            "iteration",
            "worker",
            "subtask",
            "subtask_status",
            "hypothesis",
            "hypothesis_status",
            "status",
            "confidence",
            "source",
            "finding",
            "result",
            "critique",
            "defects",
            "critique_tokens",
        ),
        "StallSignalled": ("loop", "iteration", "confidence"),
        "StrategySwitched": ("loop", "strategy"),
        "CompletionRejected": ("loop", "gate", "why"),
        "EscalationAsked": ("loop", "question"),
        "EscalationAnswered": ("loop", "answer"),
        "BudgetReserved": ("loop", "child"),
        "LoopClosed": ("loop", "status", "reason", "confidence", "result"),
    },
    initial=LoopState(),
    key=lambda row: row.text("loop"),
    fold=_fold,
    stream_of=loop_stream,
)
