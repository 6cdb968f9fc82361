"""Replay of a recorded run: derive its plan, walk its recorded pages and compute its reward again, and compare.

Pure: no site is served, no model is called, nothing is written. The result holds the first difference from the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from eventlog.chain import canonical
from eventlog.events import unroll
from projections.runs import is_advised

from ..envs.sites.known import KNOWN
from ..envs.sites.site import SiteKind
from ..executors.executor import ExecutedStep
from ..executors.recorded_pages import RecordedStep, Walked, describe_request, walk_record
from ..plans import Plan
from .agent_replay import PlayedAgain, agent_checks
from .conversation_replay import conversation_checks
from .kept_checks import kept_checks, order_checks
from .recording import Lines, Recording, ReplayCheck
from .regrade import VERIFIERS, Verifier
from .replay_outcome import end_check, outcome_checks

_ANSWERED: Final = "what the model and the site or environment answered, and that either ended the run where it ended"
_OUTCOMES: Final = "how each step ended, and that a bound ended the run if one did"
_KEPT: Final = "steps and calls"


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference from the record, as lines to be compared."""

    where: str
    expected: Lines
    actual: Lines


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of a replay. `compared` lists what was found equal, `trusted` what was taken from the record unchecked.

    `answers` is how many recorded answers an agent got that was played again; None for another run.
    """

    run: str
    outcome: Literal["identical", "different", "erased"]
    steps: int
    pages: int
    compared: Lines
    not_compared: Lines
    trusted: Lines
    divergence: Divergence | None = None
    erased: str | None = None
    answers: int | None = None


def answer_erased(run: str, address: str) -> Replayed:
    """Result of a replay whose bytes at this address were erased."""
    return Replayed(run, "erased", 0, 0, (), (), (), erased=address)


def replay_recording(
    recording: Recording,
    verifiers: Mapping[str, Verifier] = VERIFIERS,
    sites: Mapping[str, SiteKind] = KNOWN,
    again: PlayedAgain | None = None,
) -> Replayed:
    """Execute a recorded run again and compare memory, plan, each step, end, state and reward.

    The run of an agent is compared with how it was played `again` by its agent, if it was. Each comparison starts from
    the recorded result of the one before it, so the first divergence is a cause.
    """
    checks, trusted = _checks_and_trust(recording, verifiers, sites, again)
    compared: list[str] = []
    not_compared: list[str] = []
    divergence: Divergence | None = None
    for check in checks:
        if check.actual is None:
            not_compared.append(f"{check.name}: {check.why}")
        elif check.actual == check.expected:
            compared.append(check.name)
        else:
            divergence = Divergence(check.where or check.name, check.expected, check.actual)
            break
    return Replayed(
        run=recording.started.run,
        outcome="identical" if divergence is None else "different",
        steps=len(recording.steps),
        pages=sum(step.observation is not None for step in recording.steps),
        compared=tuple(dict.fromkeys(compared)),
        not_compared=tuple(not_compared),
        trusted=trusted,
        divergence=divergence,
        answers=None if again is None else again.answers,
    )


def _checks_and_trust(
    recording: Recording, verifiers: Mapping[str, Verifier], sites: Mapping[str, SiteKind], again: PlayedAgain | None
) -> tuple[Iterator[ReplayCheck], Lines]:
    """The checks of a run, made one by one, and what is taken from the record unchecked."""
    conversation, kept = recording.conversation, recording.kept
    first, last = [_memory(recording), _plan(recording)], outcome_checks(recording, verifiers, sites)
    order = () if kept is None else order_checks(recording, kept)
    if conversation is not None:
        return chain(first, conversation_checks(recording, conversation), order, last), (_ANSWERED,)
    if again is not None:
        return chain(first, agent_checks(recording, again), order, last), again.trusted
    if kept is not None:
        return chain(first, kept_checks(recording, kept), last), (_OUTCOMES if kept.walks_plan else _KEPT,)
    record = _record(recording)
    walked = walk_record(recording.plan, record, max_steps=recording.started.task_spec.max_steps)
    end = [end_check(recording, walked.execution)]
    return chain(first, _steps(record, walked), end, last), walked.trusted


def _record(recording: Recording) -> tuple[RecordedStep, ...]:
    """Recorded steps, without those beyond the recorded plan."""
    walked = unroll(recording.plan, recording.started.task_spec.max_steps)
    return tuple(
        RecordedStep(
            walked[event.index],
            event,
            None if event.observation is None else recording.texts[event.observation],
        )
        for event in recording.steps
        if event.index < len(walked)
    )


def _memory(recording: Recording) -> ReplayCheck:
    memory = recording.started.artifact.memory
    actual = None if recording.memory is None else (f"memory at {memory.upto}: {recording.memory}",)
    return ReplayCheck("memory", (f"memory at {memory.upto}: {memory.digest}",), actual, "other fold versions built it")


def _plan(recording: Recording) -> ReplayCheck:
    told = is_advised(recording.started.executor)  # then no piece is at a step
    pieces = () if told else recording.started.applied
    applied = tuple(f"{item.piece} at step {item.step}" for item in pieces)
    if recording.derived is None:
        return ReplayCheck("plan", (), None, "its template is not in the log")
    again = tuple(f"{item.piece} at step {item.step}" for item in recording.derived.applied)
    return ReplayCheck(
        "plan", _plan_lines(recording.plan) + applied, _plan_lines(recording.derived.plan) + again, where="the plan"
    )


def _plan_lines(plan: Plan) -> Lines:
    return tuple(
        f"step {index}: {canonical(step.model_dump(mode='json', exclude_none=True)).decode()}"
        for index, step in enumerate(plan)
    )


def _steps(record: tuple[RecordedStep, ...], walked: Walked) -> Iterator[ReplayCheck]:
    """Yield a check per step; an executed step takes the next request and the next recorded page."""
    led = (step.event.observation for step in record if step.text is not None)
    asked = iter(walked.requests)
    taken = walked.execution.taken
    for place in range(max(len(record), len(taken))):
        expected = _recorded_lines(record[place]) if place < len(record) else ("no step was taken",)
        actual: Lines = ("no step was taken",)
        if place < len(taken):
            has_page = taken[place].http_status is not None
            page = next(led, "none recorded") if has_page else None
            actual = _taken_lines(taken[place], next(asked, None) if has_page else None, page)
        yield ReplayCheck("steps", expected, actual, where=f"step {place}")


def _recorded_lines(step: RecordedStep) -> Lines:
    event = step.event
    asked = describe_request(step.step) if event.http_status is not None else None
    return _lines(event.index, event.action, event.intent, asked, event.outcome, event.http_status, event.observation)


def _taken_lines(taken: ExecutedStep, asked: str | None, page: str | None) -> Lines:
    return _lines(taken.index, taken.step.action, taken.step.intent, asked, taken.outcome, taken.http_status, page)


def _lines(
    index: int, action: str, intent: str, asked: str | None, outcome: str, status: int | None, page: str | None
) -> Lines:
    return (
        f"step {index}: {action}",
        f"intent: {intent}",
        f"request: {asked or 'none'}",
        f"outcome: {outcome}",
        f"status: {status or 'none'}",
        f"page: {page or 'none'}",
    )
