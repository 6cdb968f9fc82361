"""A worker's turn: its order, its result, critique and repair, and the events that record it together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from eventlog.chain import digest
from eventlog.events import AnyEvent, FoundDefect, LoopConfig, WorkerReturned

from ...delegation.answers import micro_of
from ...delegation.critique import CONFIDENCE, Critique, is_fixpoint, prescription
from ...delegation.diagnosis import hypothesis_status
from ...delegation.envelopes import Envelope, inherited_state
from ...delegation.evaluation import Confidence, confidence_of
from ...delegation.plan import status_after
from ...delegation.prompts import WorkOrder
from ...delegation.results import compared_text, finding_of, plain_line, result_bytes
from ...delegation.skills import references_in, resolve_skills
from ...models.model import Model
from .critic import DeskCritic
from .desk import WorkerDesk
from .errors import WorkerFailed, WorkerOverBudget
from .journal import LoopJournal
from .truth import GroundTruth
from .workers import Worker


@dataclass(frozen=True)
class WorkerTurn:
    """Outcome of a worker's turn. `critique_tokens` were spent on critique and repair."""

    result: dict[str, Any]
    confidence: Confidence
    critique: Critique | None = None
    repairs: int = 0
    critique_tokens: int = 0
    child: str | None = None
    note: str = ""


def take_turn(
    worker: Worker, envelope: Envelope, desk: WorkerDesk, truth: GroundTruth, config: LoopConfig, critic: Model | None
) -> WorkerTurn:
    """Have a worker do an envelope, and repair what its critique finds. Raises ModelFailure, TruthFailed."""
    order = work_order(envelope, desk)
    turn = _attempt(worker, envelope, order, desk, truth)
    if not config.critique.enabled:
        return turn
    judge = DeskCritic(critic, desk)
    judged = judge.judge(envelope, turn.result, turn.confidence.micro, order.seed)
    turn = replace(turn, critique=judged)
    for number in range(1, config.critique.max_repair_attempts + 1):
        if not judged.is_critical or not judge.may_go_on:
            break
        again = order_again(order, judged, number)
        better = _attempt(worker, envelope, again, desk, truth)
        after = judge.judge(envelope, better.result, better.confidence.micro, again.seed)
        stuck = is_fixpoint(compared_text(turn.result), compared_text(better.result))
        if after.score < judged.score:
            break
        judged, turn = after, replace(better, critique=after, repairs=number)
        if stuck:
            break
    return replace(turn, critique_tokens=judge.tokens_spent)


def work_order(envelope: Envelope, desk: WorkerDesk) -> WorkOrder:
    """The order of an envelope: its skills as whole texts, the tools there are, the results that it may see."""
    journal = desk.journal
    with journal.lock:
        entries, latest, seed = dict(journal.skills.skills), dict(journal.state.latest), journal.state.seed
    named = {each.name for each in references_in(envelope.skills)}
    texts = {name: journal.text_at(entry.content) for name, entry in entries.items() if name in named}
    enabled = desk.config.skills.enabled
    seen = inherited_state(envelope, latest)
    return WorkOrder(
        worker=envelope.worker_id,
        instructions=envelope.instructions,
        skills=resolve_skills(envelope.skills, texts) if enabled else (),
        tools=desk.tools(),
        state={name: journal.record_at(each.result) for name, each in seen.items()},
        may_create_tools=desk.may_create and desk.config.tools.enabled and desk.forge.sandbox.kind != "none",
        seed=int.from_bytes(digest([seed, desk.iteration, envelope.worker_id])[:4]) >> 1,
        temperature=envelope.temperature,
    )


def order_again(order: WorkOrder, judged: Critique, number: int = 1) -> WorkOrder:
    """The same order with what is to be repaired, for the n-th time."""
    return replace(order, instructions=f"{order.instructions}\n\n{prescription(judged)}", seed=order.seed + number)


def record_turn(
    journal: LoopJournal, envelope: Envelope, turn: WorkerTurn, desk: WorkerDesk, settled: AnyEvent
) -> None:
    """Append the settlement and the result together."""
    iteration = desk.iteration
    error = isinstance(turn.result.get("error"), str)
    micro = turn.confidence.micro
    returned = WorkerReturned(
        loop=journal.loop,
        iteration=iteration,
        worker=envelope.worker_id,
        subtask=envelope.subtask_id,
        subtask_status=_plan_status(micro) if envelope.subtask_id else None,
        hypothesis=envelope.tests_hypothesis,
        hypothesis_status=_test_status(micro) if envelope.tests_hypothesis else None,
        status="error" if error else "ok",
        confidence=micro,
        reported=turn.confidence.reported,
        source="error" if error and turn.confidence.source == "missing" else turn.confidence.source,
        critique=None if turn.critique is None else turn.critique.score,
        critic=None if turn.critique is None else turn.critique.critic,
        defects=() if turn.critique is None else _defects(turn.critique),
        critique_tokens=turn.critique_tokens,
        repairs=turn.repairs,
        finding=plain_line(finding_of(envelope.worker_id, turn.result, desk.last_error), 400),
        result=journal.put_bytes(result_bytes(turn.result)),
        tools=tuple(desk.used)[:50],
        skills=tuple(each.name for each in references_in(envelope.skills))[:50],
        cache_hits=desk.cache_hits,
        refused=tuple(desk.refused)[:50],
        child=turn.child,
        note=plain_line(turn.note),
    )
    journal.append(settled, returned)


def _defects(judged: Critique) -> tuple[FoundDefect, ...]:
    """The defects that are left after the repair. How sure a worker is is no defect of what it found."""
    return tuple(
        FoundDefect(category=each.category, location=each.location, severity=each.severity)
        for each in judged.defects[:20]
        if each.location != CONFIDENCE
    )


def _attempt(worker: Worker, envelope: Envelope, order: WorkOrder, desk: WorkerDesk, truth: GroundTruth) -> WorkerTurn:
    try:
        result = worker.work(order, desk)
    except (WorkerOverBudget, WorkerFailed) as failure:
        return WorkerTurn({"error": str(failure)}, Confidence(0, "error", None))
    reported = micro_of(result.get("confidence"))
    calls = (desk.passed_calls, desk.tool_calls)
    return WorkerTurn(result, confidence_of(reported, truth.confidence(envelope, result), calls))


def _plan_status(micro: int) -> Any:
    return status_after(micro)


def _test_status(micro: int) -> Any:
    return hypothesis_status(micro)
