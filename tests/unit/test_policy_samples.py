"""A policy's runs as they are recorded, small enough to read: for tests of datasets made of what was drawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.datasets.freeze import BuiltDataset, build_dataset
from eventlog.blobs import Blob, MemoryBlobs
from eventlog.blobs.conversations import put_messages
from eventlog.events import (
    ArmRun,
    Artifact,
    InstanceReset,
    Memory,
    ModelCalled,
    Query,
    RewardGraded,
    RewardTerms,
    RunFinished,
    RunMissing,
    RunStarted,
    Sampling,
    Spec,
    TaskSpec,
    Usage,
)
from eventlog.memory import MemoryStore
from eventlog.store import Append, Position
from projections.engine.views import ReplayedViews
from tests.unit.test_agent_samples import a_store

NO_DIGEST, TOKENIZER, TEMPLATE = "0" * 64, "a" * 64, "b" * 64
MICRO = 1_000_000


@dataclass(frozen=True)
class PolicyCall:
    """A call: what it was asked and what it drew. None leaves a field of the completion out."""

    prompt: Sequence[int] | None = (1, 2, 3)
    ids: Sequence[int] | None = (7, 8, 9)
    logprobs: Sequence[Any] | None = (-0.5, -0.25, -0.125)
    text: str = "an answer"
    said: tuple[str, ...] = ("the task",)
    tokenizer: str | None = TOKENIZER
    template: str | None = TEMPLATE
    model: str = "m1"
    temperature: int = MICRO
    top_p: int = MICRO
    max_tokens: int = 9
    stop: tuple[str, ...] = ()
    finish: str | None = "stop"
    facts: tuple[tuple[str, Any], ...] = ()
    body: bytes | None = None

    def blob(self) -> Blob:
        """The completion's blob."""
        if self.body is not None:
            return Blob("application/json", self.body)
        sample = {"text": self.text, "finish": self.finish, "token_ids": self.ids, "logprobs": self.logprobs}
        known = {"tokenizer": self.tokenizer, "chat_template": self.template, **dict(self.facts)}
        told = {key: value for key, value in known.items() if value is not None}
        completion = {"model": self.model, "prompt_token_ids": self.prompt, "samples": [sample], **told}
        return Blob("application/json", json.dumps(completion).encode())


SECOND = PolicyCall(
    prompt=(1, 2, 3, 7, 8, 9, 4, 5), ids=(6,), logprobs=(-1.5,), text="done", said=("the task", "an answer", "a page")
)
"""A call that goes on from PolicyCall() after an observation of two tokens."""


@dataclass(frozen=True)
class PolicyRun:
    """One run of a policy to record. `score` None: not graded."""

    run: str
    score: int | None = MICRO
    group: str = "g"
    index: int = 0
    calls: tuple[PolicyCall, ...] = (PolicyCall(),)
    value: int | None = 900_000
    shaped: int | None = 2 * MICRO
    shaping: str = "shaped-1"
    sweep: str = "s"
    template: str = "t"
    env_seed: int = 1
    environment: str = "marketplace"
    weights: str = "base"
    memory: int = 0
    executor: str = "policy"
    fingerprint: str = NO_DIGEST
    candidate: str | None = None
    withheld: str | None = None
    evaluation: str | None = None
    role: str = "policy"
    is_missing: bool = False
    is_ended: bool = True
    subject: str | None = None


class PolicyLog:
    """A log in memory, with runs of a policy in it."""

    def __init__(self, *runs: PolicyRun) -> None:
        self.store: MemoryStore = a_store()
        self.blobs = MemoryBlobs()
        self.play(*runs)

    def play(self, *runs: PolicyRun) -> None:
        """Record further runs."""
        for run in runs:
            play(self.store, self.blobs, run)

    def views(self, position: Position | None = None) -> ReplayedViews:
        """Views at a position, default the head."""
        return ReplayedViews(self.store, self.store.head() if position is None else position)

    def build(self, query: Query) -> BuiltDataset:
        """What a query makes now."""
        return build_dataset(self.store, self.blobs, self.views(), query)


def siblings(*scores: int | None, **changes: Any) -> tuple[PolicyRun, ...]:
    """Siblings with these scores, shaped and valued alike, that drew different answers."""
    return tuple(
        replace(
            PolicyRun(f"r{index}", score, index=index, value=score, shaped=score, **changes),
            calls=changes.get("calls", (replace(PolicyCall(), ids=(7, 8, 10 + index)),)),
        )
        for index, score in enumerate(scores)
    )


def play(store: Any, blobs: Any, run: PolicyRun) -> None:
    """Put a run's blobs, then append its events."""
    events: list[Any] = [_started(run)]
    if run.is_missing:
        events.append(RunMissing(run=run.run, group=run.group, reason="model_down", detail="no"))
    else:
        events.append(InstanceReset(run=run.run, group=run.group, seed=run.env_seed, fingerprint=run.fingerprint))
        events += [_called(blobs, run, number, call) for number, call in enumerate(run.calls)]
        events += [_finished(run)] if run.is_ended else []
        events += [_graded(run, run.score)] if run.score is not None and run.is_ended else []
    store.append([Append(f"run/{run.run}", tuple(events), "runner")])


def _started(run: PolicyRun) -> RunStarted:
    arm = None
    if run.evaluation is not None:
        arm = ArmRun(evaluation=run.evaluation, benchmark="b", arm="champion", repeat=0, is_sealed=True)
    return RunStarted(
        run=run.run,
        spec=Spec(
            spec_id=run.run,
            template=run.template,
            env_seed=run.env_seed,
            group_id=run.group,
            sibling_index=run.index,
            sweep=run.sweep,
            candidate=run.candidate,
            withheld=run.withheld,
        ),
        task_spec=TaskSpec(
            task_spec_id=run.template,
            instruction="Do it.",
            task_class="c",
            environment=run.environment,
            max_steps=9,
            success_conditions=(),
        ),
        artifact=Artifact(weights=run.weights, memory=Memory(upto=run.memory, folds={}, without=(), digest=NO_DIGEST)),
        executor=run.executor,
        plan=NO_DIGEST,
        applied=(),
        arm=arm,
        subject=run.subject,
    )


def _called(blobs: Any, run: PolicyRun, number: int, call: PolicyCall) -> ModelCalled:
    roles = ("user", "assistant")
    messages: list[dict[str, Any]] = [
        {"role": roles[place % 2], "parts": [{"text": text}]} for place, text in enumerate(call.said)
    ]
    (completion,) = blobs.put([call.blob()], subject=run.subject)
    return ModelCalled(
        run=run.run,
        index=number,
        step=number,
        role=run.role,  # type: ignore[arg-type]
        model=call.model,
        sampling=Sampling(
            temperature_micro=call.temperature, top_p_micro=call.top_p, max_tokens=call.max_tokens, stop=call.stop
        ),
        messages=put_messages(blobs, messages, subject=run.subject),
        images=(),
        completion=completion,
        has_logprobs=call.logprobs is not None,
        input_tokens=None,
        output_tokens=None,
    )


def _finished(run: PolicyRun) -> RunFinished:
    usage = Usage(actions=1, wall_microseconds=1, input_tokens=None, output_tokens=None)
    return RunFinished(
        run=run.run, status="completed", fingerprint=NO_DIGEST, end_state=NO_DIGEST, mutations=1, usage=usage
    )


def _graded(run: PolicyRun, score: int) -> RewardGraded:
    return RewardGraded(
        run=run.run,
        group=run.group,
        channel="oracle",
        version="1",
        score=score,
        passed=score == MICRO,
        reasons=(),
        terms=RewardTerms(score=score, lambda_per_dollar=0, penalty=0),
        prices=1,
        cost=None if run.value is None else 1,
        value=run.value,
        shaping=None if run.shaped is None else run.shaping,
        shaped=run.shaped,
    )
