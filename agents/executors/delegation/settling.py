"""The end of an iteration, once all workers have returned: the stall signal, its consequence, and the loop's end."""

from __future__ import annotations

from typing import Any

from eventlog.events import (
    AnyEvent,
    EscalationAsked,
    LoopClosed,
    LoopConfig,
    StallSignalled,
    StrategySwitched,
    WorkerReturned,
)
from projections.delegation.budgets import loop_stream
from projections.delegation.loop_state import LoopState
from projections.engine.projection import state_json

from ...delegation.budget import can_continue
from ...delegation.convergence import Trend, convergence
from ...delegation.critique import defects_at
from ...delegation.evaluation import mean_confidence
from ...delegation.files import merge_files
from ...delegation.plan import pending_count
from ...delegation.results import compared_text, plain_line
from ...delegation.rules import is_idle, plan_steps
from ...delegation.stall import COMPARED_CHARS, Stall, detect_stall
from ...delegation.terminal import terminal_status
from .journal import LoopJournal, plain_json


def judge_iteration(journal: LoopJournal, config: LoopConfig) -> None:
    """Append the stall detector's signal, and the switch and the question that it leads to."""
    state, stalls = journal.state, journal.stall
    ordered = sorted(state.returned, key=lambda each: each.worker)
    confidence = mean_confidence(each.confidence for each in ordered)
    output = "\n".join(compared_text(journal.record_at(each.result)) for each in ordered)[:COMPARED_CHARS]
    window = stalls.window[-config.stall_detection.window :]
    outputs = [journal.text_at(each.output) for each in window]
    confidences = [*(each.confidence for each in window), confidence]
    stall = detect_stall(confidences, [*outputs, output], stalls.used, config.stall_detection)
    signalled = StallSignalled(
        loop=journal.loop,
        iteration=state.iteration,
        signal=stall.signal,
        confidence=confidence,
        output=journal.put_text(output),
        similarity=stall.similarity,
        confidence_flat=stall.confidence_flat,
        outputs_alike=stall.outputs_alike,
    )
    journal.append(signalled, *_switch(state, stall))


def reason_to_end(journal: LoopJournal, config: LoopConfig) -> str | None:
    """Why the loop ends before another decision, or None. Read from its folds alone, so that a kill changes nothing."""
    state = journal.state
    is_judged = bool(state.history) and state.history[-1].iteration == state.iteration
    if is_judged and journal.stall.signal == "stop":
        return "stall_detected: both channels, and no strategy is left"
    over = can_continue(journal.budget, config.budget)
    if over is not None:
        return f"budget_exhausted: {over.why}"
    capped = defects_at(state.history, config.critique, config.critique.defect_category_hard_cap)
    if capped:
        return f"defect_category_cap: {', '.join(capped)}"
    if is_idle(state):
        return f"{'manager_parse_failure' if state.invalid else 'no_progress'}: no decision could be followed"
    return None


def reason_converged(journal: LoopJournal, config: LoopConfig) -> str | None:
    """Why the loop has converged, or None. Asked when a manager would delegate again, so that it may complete first.

    A manager whose completion was just rejected delegates what it lacks.
    """
    found = None if journal.state.rejections else convergence(_trend(journal, config), config)
    return None if found is None else f"converged: {found}"


def end_event(journal: LoopJournal, reason: str, result: Any = None, confidence: int | None = None) -> LoopClosed:
    """The event that ends the loop. A result that is not whole carries what there is."""
    state, status = journal.state, terminal_status(reason)
    reached = state.history[-1].confidence if state.history else 0
    micro = 0 if status == "failed" else reached if confidence is None else confidence
    content = {
        "result": result or {},
        "partial": status != "complete",
        "reason": reason,
        "iterations": state.iteration,
        "history": [[each.iteration, each.confidence] for each in state.history],
        "files": merge_files([*worker_results(journal), result or {}]),
        "artifacts": {name: each.result for name, each in sorted(state.latest.items())},
        "tools": sorted(journal.tools.tools),
        "skills": sorted(journal.skills.skills),
        "plan": state_json(state)["plan"],  # type: ignore[index]
    }
    return LoopClosed(
        loop=journal.loop,
        status=status,
        reason=plain_line(reason),
        confidence=micro,
        result=journal.put_bytes(plain_json(content)),
    )


def worker_results(journal: LoopJournal) -> list[dict[str, Any]]:
    """The results of all workers of a loop, in order of iteration and name."""
    stream = journal.store.read(stream=loop_stream(journal.loop))
    found = [each.event for each in stream if isinstance(each.event, WorkerReturned)]
    ordered = sorted(found, key=lambda each: (each.iteration, each.worker))
    return [journal.record_at(each.result) for each in ordered]


def _switch(state: LoopState, stall: Stall) -> list[AnyEvent]:
    """The switch of a strategy. To escalate asks a person, or the parent of a sub-manager.

    In a graded run without a parent nobody is there, so it counts as used.
    """
    if stall.strategy is None:
        return []
    switched = StrategySwitched(loop=state.loop, iteration=state.iteration, strategy=stall.strategy)
    if stall.strategy != "escalate" or (state.graded and state.parent is None):
        return [switched]
    question = f"The loop is stuck at iteration {state.iteration} on: {state.task_line[:300]}. What should it do?"
    return [switched, EscalationAsked(loop=state.loop, iteration=state.iteration, question=question)]


def _trend(journal: LoopJournal, config: LoopConfig) -> Trend:
    state, stall = journal.state, config.stall_detection
    left = [each for each in stall.strategies if each not in journal.stall.used] if stall.strategy_switching else []
    return Trend(
        iteration=state.iteration + 1,
        confidences=[each.confidence for each in state.history],
        findings=[each.findings for each in state.history],
        pending=pending_count(plan_steps(state.plan)),
        strategies_left=len(left),
    )
