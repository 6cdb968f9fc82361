"""Replay of a recorded run: derive its plan, walk its recorded pages and compute its reward again, and compare.

Pure: no site is served, no model is called, nothing is written. The result holds the first difference from the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from eventlog.chain import canonical
from eventlog.events import InstanceReset, RewardGraded, RunFinished, RunStarted, StepTaken, unroll
from projections.costs import PriceBook

from ..envs.sites.known import KNOWN
from ..envs.sites.site import Simulation, SiteKind
from ..executors.executor import ExecutedStep
from ..executors.recorded_pages import RecordedStep, Walked, describe_request, walk_record
from ..plans import Overlaid, Plan
from ..rewards import SHAPING_VERSION, compute_reward
from .errors import CannotGrade, UnknownVerifier
from .regrade import VERIFIERS, Regraded, Verifier, conduct_recorded, regrade_run, restore_instance, verifier

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """Records of one run from the log and its blobs. A field of None is missing and is not compared.

    `plan` is the recorded executed plan, `texts` the pages by address. `derived` is the plan derived now from template
    and memory, `memory` the digest of the memory rebuilt now at its position, `book` the prices of its grading.
    """

    started: RunStarted
    reset: InstanceReset | None
    steps: tuple[StepTaken, ...]
    finished: RunFinished
    graded: RewardGraded | None
    plan: Plan
    texts: Mapping[str, str]
    derived: Overlaid | None
    memory: str | None
    end_state: bytes | None
    book: PriceBook | None


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference from the record, as lines to be compared."""

    where: str
    expected: Lines
    actual: Lines


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of a replay. `compared` lists what was found equal, `trusted` what was taken from the record unchecked."""

    run: str
    outcome: Literal["identical", "different", "erased"]
    steps: int
    pages: int
    compared: Lines
    not_compared: Lines
    trusted: Lines
    divergence: Divergence | None = None
    erased: str | None = None


@dataclass(frozen=True, slots=True)
class _Check:
    """One comparison with the record. `actual` is None if it cannot be computed, and `why` gives the reason."""

    name: str
    expected: Lines
    actual: Lines | None
    why: str = ""
    where: str = ""


def answer_erased(run: str, address: str) -> Replayed:
    """Result of a replay whose bytes at this address were erased."""
    return Replayed(run, "erased", 0, 0, (), (), (), erased=address)


def replay_recording(
    recording: Recording, verifiers: Mapping[str, Verifier] = VERIFIERS, sites: Mapping[str, SiteKind] = KNOWN
) -> Replayed:
    """Execute a recorded run again and compare memory, plan, each step, end, state and reward.

    Each comparison starts from the recorded result of the one before it, so the first divergence is a cause.
    """
    record = _record(recording)
    walked = walk_record(recording.plan, record, max_steps=recording.started.task_spec.max_steps)
    compared: list[str] = []
    not_compared: list[str] = []
    divergence: Divergence | None = None
    for check in _checks(recording, record, walked, verifiers, sites):
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
        pages=sum(step.text is not None for step in record),
        compared=tuple(dict.fromkeys(compared)),
        not_compared=tuple(not_compared),
        trusted=walked.trusted,
        divergence=divergence,
    )


def _checks(
    recording: Recording,
    record: tuple[RecordedStep, ...],
    walked: Walked,
    verifiers: Mapping[str, Verifier],
    sites: Mapping[str, SiteKind],
) -> Iterator[_Check]:
    yield _memory(recording)
    yield _plan(recording)
    yield from _steps(record, walked)
    yield _end(recording, walked)
    yield from _outcome(recording, verifiers, sites)


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


def _memory(recording: Recording) -> _Check:
    memory = recording.started.artifact.memory
    actual = None if recording.memory is None else (f"memory at {memory.upto}: {recording.memory}",)
    return _Check("memory", (f"memory at {memory.upto}: {memory.digest}",), actual, "other fold versions built it")


def _plan(recording: Recording) -> _Check:
    applied = tuple(f"{item.piece} at step {item.step}" for item in recording.started.applied)
    if recording.derived is None:
        return _Check("plan", (), None, "its template is not in the log")
    again = tuple(f"{item.piece} at step {item.step}" for item in recording.derived.applied)
    return _Check(
        "plan", _plan_lines(recording.plan) + applied, _plan_lines(recording.derived.plan) + again, where="the plan"
    )


def _plan_lines(plan: Plan) -> Lines:
    return tuple(
        f"step {index}: {canonical(step.model_dump(mode='json', exclude_none=True)).decode()}"
        for index, step in enumerate(plan)
    )


def _steps(record: tuple[RecordedStep, ...], walked: Walked) -> Iterator[_Check]:
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
        yield _Check("steps", expected, actual, where=f"step {place}")


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


def _end(recording: Recording, walked: Walked) -> _Check:
    finished = recording.finished
    usage = finished.usage.actions
    return _Check(
        "end",
        (f"status: {finished.status}", f"actions: {len(walked.execution.taken) if usage is None else usage}"),
        (f"status: {walked.execution.status}", f"actions: {len(walked.execution.taken)}"),
        where="the end",
    )


def _outcome(
    recording: Recording, verifiers: Mapping[str, Verifier], sites: Mapping[str, SiteKind]
) -> Iterator[_Check]:
    """Yield the checks of the run's end state, grade and reward."""
    try:
        instance = _instance(recording, sites)
    except CannotGrade as error:
        yield _Check("state", (), None, str(error.facts["actual"]))
        yield from _reward(recording, None, verifiers)
        return
    recorded: Lines = (f"fingerprint: {recording.finished.fingerprint}", f"changes: {recording.finished.mutations}")
    found: Lines = (f"fingerprint: {_bare(instance)}", f"changes: {len(instance.mutations)}")
    if recording.reset is not None:
        fresh = sites[recording.started.task_spec.environment].restore(recording.reset.seed, ())
        recorded = (f"at its start: {recording.reset.fingerprint}", *recorded)
        found = (f"at its start: {_bare(fresh)}", *found)
    yield _Check("state", recorded, found, where="the end state")
    yield from _reward(recording, instance, verifiers)


def _instance(recording: Recording, sites: Mapping[str, SiteKind]) -> Simulation:
    if recording.end_state is None:
        raise CannotGrade(run=recording.started.run, actual="the blob of its end state is missing")
    return restore_instance(recording.started, recording.started.spec.env_seed, recording.end_state, sites)


def _bare(instance: Simulation) -> str:
    return instance.fingerprint().removeprefix("sha256:")


def _reward(recording: Recording, instance: Simulation | None, verifiers: Mapping[str, Verifier]) -> Iterator[_Check]:
    reward = recording.graded
    if reward is None:
        yield _Check("reward", (), None, "it was not graded")
        return
    recorded = Regraded(reward.score, reward.passed, reward.reasons)
    if instance is None:
        yield _Check("grade", (), None, "its end state cannot be restored")
    else:
        try:
            found = regrade_run(recording.started, instance, verifier(reward.version, verifiers))
            yield _Check("grade", _graded_lines(recorded), _graded_lines(found), where="the grade")
        except (CannotGrade, UnknownVerifier) as error:
            yield _Check("grade", (), None, str(error))
    if recording.book is None:
        yield _Check("reward", (), None, f"no price book of version {reward.prices} is in the log")
        return
    conduct = conduct_recorded(recording.started, recording.steps, recording.finished, recording.plan)
    again = compute_reward(
        reward.run,
        reward.group,
        reward.score,
        reward.reasons,
        recording.finished.usage,
        recording.book,
        passed=reward.passed,
        conduct=conduct if reward.shaping == SHAPING_VERSION else None,
        lambda_per_dollar=reward.terms.lambda_per_dollar,
    )
    is_known = reward.shaping in {None, SHAPING_VERSION}
    yield _Check("reward", _worth(reward, shaped=is_known), _worth(again, shaped=is_known), where="the reward")
    if not is_known:
        yield _Check("shaped return", (), None, f"the shaping version {reward.shaping!r} is unknown")


def _graded_lines(found: Regraded) -> Lines:
    return (f"score: {found.score}", f"passed: {found.passed}", *(f"reason: {reason}" for reason in found.reasons))


def _worth(reward: RewardGraded, *, shaped: bool) -> Lines:
    terms = reward.terms
    lines = (
        f"cost: {reward.cost}",
        f"score: {terms.score}",
        f"lambda: {terms.lambda_per_dollar}",
        f"penalty: {terms.penalty}",
        f"value: {reward.value}",
    )
    shape = (f"process: {terms.process}", f"progress: {terms.progress}", f"shaped: {reward.shaped}")
    return lines + shape if shaped else lines
