"""A worker's turn: its order, its result, critique and repair, and the events that record it together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eventlog.chain import digest
from eventlog.events import AnyEvent, LoopConfig, SkillSaved, WorkerReturned

from ...delegation.answers import micro_of
from ...delegation.critique import Critique, critique, is_fixpoint, prescription
from ...delegation.diagnosis import hypothesis_status
from ...delegation.envelopes import Envelope, inherited_state
from ...delegation.evaluation import Confidence, confidence_of
from ...delegation.plan import status_after
from ...delegation.prompts import WorkOrder
from ...delegation.results import compared_text, finding_of, plain_line, result_bytes
from ...delegation.skills import SkillText, references_in, resolve_skills, skill_of, skills_in
from .desk import WorkerDesk
from .errors import WorkerFailed, WorkerOverBudget
from .journal import LoopJournal
from .truth import GroundTruth
from .workers import Worker


@dataclass(frozen=True)
class WorkerTurn:
    """Outcome of a worker's turn."""

    result: dict[str, Any]
    confidence: Confidence
    critique: Critique | None = None
    repairs: int = 0
    child: str | None = None
    note: str = ""


def take_turn(
    worker: Worker, envelope: Envelope, desk: WorkerDesk, truth: GroundTruth, config: LoopConfig
) -> WorkerTurn:
    """Have a worker do an envelope, and repair what its critique finds. Raises ModelFailure."""
    order = work_order(envelope, desk)
    turn = _attempt(worker, envelope, order, desk, truth)
    if not config.critique.enabled:
        return turn
    judged = critique(turn.result, envelope.required_fields, turn.confidence.micro)
    turn = WorkerTurn(turn.result, turn.confidence, judged)
    for number in range(1, config.critique.max_repair_attempts + 1):
        if turn.critique is None or not turn.critique.is_critical:
            break
        again = order_again(order, turn.critique)
        better = _attempt(worker, envelope, again, desk, truth)
        after = critique(better.result, envelope.required_fields, better.confidence.micro)
        stuck = is_fixpoint(compared_text(turn.result), compared_text(better.result))
        if after.score >= turn.critique.score:
            turn = WorkerTurn(better.result, better.confidence, after, number)
        if stuck:
            break
    return turn


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
    )


def order_again(order: WorkOrder, judged: Critique) -> WorkOrder:
    """The same order with what is to be repaired."""
    return WorkOrder(
        worker=order.worker,
        instructions=f"{order.instructions}\n\n{prescription(judged)}",
        skills=order.skills,
        tools=order.tools,
        state=order.state,
        may_create_tools=order.may_create_tools,
        seed=order.seed + 1,
    )


def record_turn(
    journal: LoopJournal, envelope: Envelope, turn: WorkerTurn, desk: WorkerDesk, settled: AnyEvent
) -> None:
    """Append the settlement, the result and its skills together."""
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
    with journal.lock:
        found = _skills_of(envelope, turn.result, desk.config)
        saved = skill_events(journal, found, envelope.worker_id, iteration, desk.config.skills.max_total)
        journal.append(settled, returned, *saved)


def skill_events(
    journal: LoopJournal, skills: Sequence[SkillText], worker: str, iteration: int, most: int
) -> list[SkillSaved]:
    """The events that save skills, but for those that are in the catalogue as they are."""
    known, found = journal.skills.skills, []
    for skill in skills:
        content = journal.put_text(skill.text)
        before = known.get(skill.name)
        if (before is not None and before.content == content) or (before is None and len(known) >= most):
            continue
        found.append(
            SkillSaved(
                loop=journal.loop,
                iteration=iteration,
                worker=worker,
                skill=skill.name,
                version=1 if before is None else before.version + 1,
                content=content,
                line=plain_line(skill.line, 150),
                words=skill.words,
            )
        )
    return found


def _skills_of(envelope: Envelope, result: dict[str, Any], config: LoopConfig) -> list[SkillText]:
    """The skills that an envelope brings whole and those that its worker wrote; of one name the worker's stays."""
    if not config.skills.enabled:
        return []
    inline = [skill_of(each.inline) for each in references_in(envelope.skills) if each.inline is not None]
    long_enough = [each for each in inline if each.words >= config.skills.min_words]
    return list({each.name: each for each in (*long_enough, *skills_in(result, config.skills.min_words))}.values())


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
