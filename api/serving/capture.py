"""Record the model calls of outside runs: the run is opened at its first call, and each call is an event of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

from eventlog.blobs import Blob
from eventlog.blobs.canonical_json import canonical_json
from eventlog.blobs.conversations import link_messages
from eventlog.blobs.postgres import without_flush
from eventlog.errors import FlywheelError
from eventlog.events import (
    AnyEvent,
    Applied,
    Artifact,
    Memory,
    ModelCalled,
    RewardGraded,
    RunFinished,
    RunMissing,
    RunStarted,
    Spec,
    StepTaken,
    TaskSpec,
)
from eventlog.store import START, Append, Committed, Conflict, Position, Recorded

from ..errors import OthersRun
from ..house import House
from ..run_owners import actors_of, proxy_actor
from .calls import ModelAnswer, ModelCall
from .errors import RunClosed
from .tool_steps import steps_of_results

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

JSON_TYPE: Final = "application/json"
EXECUTOR: Final = "proxy"
_REMEMBERED: Final = 4096
NAME_MOST: Final = 200
"""The most characters of a name in an event."""

SWEEP: Final = "ext-proxy"
OUTSIDE_ENVIRONMENT: Final = "outside"
NOTHING: Final = Blob(JSON_TYPE, b"[]")
"""The plan and the memory of a run from outside. It is put before an event names it."""


@dataclass(frozen=True, slots=True)
class RunOpening:
    """A caller's description of a run that it begins; `group` joins the runs of one instance of a task.

    `weights` are those of the model that it calls first, `memory` is what it is told of (None: no memory is known of
    it), and `applied` are the pieces of it.
    """

    run: str
    token: str
    group: str
    task: str
    weights: str = "base"
    memory: Memory | None = None
    applied: tuple[Applied, ...] = ()

    @property
    def actor(self) -> str:
        """Actor of the run's events: the proxy for the holder of a token."""
        return proxy_actor(self.token)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The version of a run's stream, the numbers of its next call and step, and the position of its last event.

    `told` are the messages whose results of tools are steps already.
    """

    version: int
    calls: int
    position: Position
    steps: int = 0
    told: frozenset[str] = frozenset()


@dataclass
class Capture:
    """Appends the calls of outside runs. Thread-safe; remembers where the latest runs stand."""

    house: House
    served: Mapping[str, str]
    _known: OrderedDict[tuple[str, str], RunProgress] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)
    _has_begun: bool = False
    """True once the log has a run that names NOTHING, which therefore stays."""

    def is_open(self, opening: RunOpening) -> bool:
        """True if this process knows that the run began."""
        with self._lock:
            return _key(opening) in self._known

    def position_of(self, opening: RunOpening) -> Position | None:
        """The position of the run's last event; None if this process does not know the run."""
        with self._lock:
            known = self._known.get(_key(opening))
        return None if known is None else known.position

    def open_run(self, opening: RunOpening) -> None:
        """Begin the run unless it began before. Raises OthersRun, RunClosed, LogUnavailable."""
        if self.is_open(opening):
            return
        started = self._start_event(opening)
        append = Append(stream=f"run/{opening.run}", events=(started,), actor=opening.actor, expect=0)
        (outcome,) = self.house.store.append([append])
        if isinstance(outcome, Committed):
            self._has_begun = True
            self._remember(opening, RunProgress(outcome.version, 0, outcome.last))
        else:  # it began before
            self._read(opening)

    def record(self, opening: RunOpening, call: ModelCall, answer: ModelAnswer) -> None:
        """Append one call with its blobs, and before it what it is the first to tell of tools that the agent used.

        On return it is durable. Raises RunClosed, LogUnavailable.
        """
        event, blobs = call_event(opening.run, call, answer, self.served)
        known = self._progress(opening)
        is_first = known is not None and not known.calls  # later ones tell again what earlier ones told
        steps: tuple[StepTaken, ...] = ()
        if not is_first:  # what a first call tells was not done in this run
            steps, more = steps_of_results(opening.run, call.messages, [blob.digest for blob in blobs])
            blobs = (*blobs, *more)
        without_flush(self.house.blobs, are_new=is_first).put(blobs)
        self._append(opening, event, steps)

    def lose(self, problem: FlywheelError) -> None:
        """See CallRecorder. Nothing: whoever runs the agent says how its run ended."""

    def _append(self, opening: RunOpening, event: ModelCalled, steps: Sequence[StepTaken]) -> None:
        """Append at the run's next number; who lost a race against another call of the run takes the one after.

        Steps that another call told are left out.
        """
        while True:
            known = self._progress(opening)
            if known is None:
                raise RunClosed(run=opening.run, actual="it is not in the log")
            fresh = [step for step in steps if step.told_by not in known.told]
            taken = (step.model_copy(update={"index": known.steps + more}) for more, step in enumerate(fresh))
            events: tuple[AnyEvent, ...] = (*taken, event.model_copy(update={"index": known.calls}))
            append = Append(stream=f"run/{opening.run}", events=events, actor=opening.actor, expect=known.version)
            (outcome,) = self.house.store.append([append])
            if isinstance(outcome, Conflict):
                self._forget(opening)
                continue
            if isinstance(outcome, Committed):
                told = known.told | {step.told_by for step in fresh if step.told_by is not None}
                after = RunProgress(outcome.version, known.calls + 1, outcome.last, known.steps + len(fresh), told)
                self._remember(opening, after)
            return

    def _progress(self, opening: RunOpening) -> RunProgress | None:
        with self._lock:
            known = self._known.get(_key(opening))
        return known if known is not None else self._read(opening)

    def _read(self, opening: RunOpening) -> RunProgress | None:
        """State of the run in the log, None if it did not begin. Raises OthersRun, RunClosed."""
        found: RunProgress | None = None
        for recorded in self.house.store.read(stream=f"run/{opening.run}"):
            if found is None and recorded.actor not in actors_of(opening.token):
                raise OthersRun(run=opening.run, or_role="")
            if isinstance(recorded.event, RunFinished | RunMissing | RewardGraded):
                raise RunClosed(run=opening.run, actual=recorded.event.type)
            found = _after(found or RunProgress(0, 0, START), recorded)
        if found is not None:
            self._remember(opening, found)
        return found

    def _remember(self, opening: RunOpening, progress: RunProgress) -> None:
        with self._lock:
            self._known[_key(opening)] = progress
            self._known.move_to_end(_key(opening))
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def _forget(self, opening: RunOpening) -> None:
        with self._lock:
            self._known.pop(_key(opening), None)

    def _start_event(self, opening: RunOpening) -> RunStarted:
        if not self._has_begun:
            self.house.blobs.put([NOTHING])
        start = outside_start(opening.run, opening.group, opening.task, SWEEP, EXECUTOR, opening.weights)
        if opening.memory is None:
            return start
        artifact = Artifact(weights=opening.weights, memory=opening.memory)
        return start.model_copy(update={"artifact": artifact, "applied": opening.applied})


def _after(found: RunProgress, recorded: Recorded) -> RunProgress:
    """Where a run stands after one more event of it."""
    event = recorded.event
    told = {event.told_by} if isinstance(event, StepTaken) and event.told_by is not None else set[str]()
    return RunProgress(
        recorded.version,
        found.calls + isinstance(event, ModelCalled),
        recorded.position,
        found.steps + isinstance(event, StepTaken),
        found.told | told,
    )


def outside_start(run: str, group: str, task: str, sweep: str, executor: str, weights: str = "base") -> RunStarted:
    """The first event of a run of an agent that is not ours: no plan and no memory is known of it. It names NOTHING."""
    return RunStarted(
        run=run,
        spec=Spec(spec_id=run, template=task, env_seed=0, group_id=group, sibling_index=0, sweep=sweep),
        task_spec=TaskSpec(
            task_spec_id=task,
            instruction="",
            task_class=task,
            environment=OUTSIDE_ENVIRONMENT,
            max_steps=0,
            success_conditions=(),
        ),
        artifact=Artifact(weights=weights, memory=Memory(upto=0, folds={}, without=(), digest=NOTHING.digest)),
        executor=executor,
        plan=NOTHING.digest,
        applied=(),
        arm=None,
    )


def call_event(
    run: str, call: ModelCall, answer: ModelAnswer, served: Mapping[str, str], index: int = 0
) -> tuple[ModelCalled, tuple[Blob, ...]]:
    """The event of a run's call, the first by default, and its blobs. Pure.

    Raises ValueError for what JSON cannot hold.
    """
    body: dict[str, Json] = {
        **served,
        **({"processed_logprobs": call.has_processed_logprobs} if served else {}),
        "model": answer.model,
        "prompt_token_ids": None if answer.prompt_token_ids is None else list(answer.prompt_token_ids),
        "samples": list(answer.samples),
        "asked": call.asked,
        **({"constrained": True} if call.is_constrained else {}),
        **({} if call.distribution is None else {"distribution": call.distribution}),
    }
    completion = Blob(JSON_TYPE, canonical_json(body))
    nodes = tuple(link_messages(call.messages, lambda blob: blob.digest))
    event = ModelCalled(
        run=run,
        index=index,
        step=None,
        role="policy",
        model=(answer.model or call.model)[:NAME_MOST],
        sampling=call.sampling,
        messages=nodes[-1].digest,
        images=tuple(picture.digest for picture in call.pictures),
        completion=completion.digest,
        has_logprobs=any(sample.get("logprobs") is not None for sample in answer.samples),
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
    )
    return event, (*nodes, *call.pictures, completion)


def _key(opening: RunOpening) -> tuple[str, str]:
    """Key under which a run is remembered, for one token: another one's calls are refused by the log."""
    return opening.token, opening.run
