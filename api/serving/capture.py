"""Record the model calls of outside runs: the run is opened at its first call, and each call is an event of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from anyio import to_thread
from sqlalchemy.exc import SQLAlchemyError

from eventlog.blobs import Blob
from eventlog.blobs.postgres import without_flush
from eventlog.codec import EncodedAppend, encode_append
from eventlog.errors import FlywheelError, LogUnavailable
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
    StepTaken,
)
from eventlog.group_commit import BAD_DATA
from eventlog.store import START, Append, Committed, Conflict, Outcome, Position, Recorded

from ..errors import OthersRun
from ..house import House
from ..run_owners import actors_of, proxy_actor
from .calls import READ_HERE, ModelAnswer, ModelCall
from .errors import RunClosed
from .outside_facts import NOTHING, call_event, outside_start
from .together import Together
from .tool_steps import steps_of_results

EXECUTOR: Final = "proxy"
_REMEMBERED: Final = 4096
SWEEP: Final = "ext-proxy"
_OWN_FAULTS: Final = (FlywheelError, ValueError, RecursionError, OSError, *BAD_DATA)
"""Faults of one call: what it holds cannot be recorded, or its run cannot take it."""


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


@dataclass(frozen=True, slots=True)
class _ReadyCall:
    """A call whose blobs may be put, and the steps that it is the first to tell of; none of a run's `is_first` call."""

    opening: RunOpening
    event: ModelCalled
    steps: Sequence[StepTaken]
    blobs: Sequence[Blob]
    is_first: bool


@dataclass
class Capture:
    """Appends the calls of outside runs; remembers where the latest runs stand. Thread-safe but for `record`."""

    house: House
    served: Mapping[str, str]
    _known: OrderedDict[tuple[str, str], RunProgress] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)
    _has_begun: bool = False
    """True once the log has a run that names NOTHING, which therefore stays."""

    _together: Together[tuple[RunOpening, ModelCall, ModelAnswer], None] = field(init=False)

    def __post_init__(self) -> None:
        self._together = Together(self.record_each)

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

    async def record(self, opening: RunOpening, call: ModelCall, answer: ModelAnswer) -> None:
        """Append one call with its blobs, and before it what it is the first to tell of tools that the agent used.

        On return it is durable. Calls that are answered at the same time are appended together, but for those of large
        prompts, which would hold the others up. Raises RunClosed, LogUnavailable, and ValueError for what JSON cannot
        hold.
        """
        answered = (opening, call, answer)
        if call.size <= READ_HERE:
            await self._together.answer(answered)
        elif (problem := (await to_thread.run_sync(self.record_each, [answered]))[0]) is not None:
            raise problem

    def record_each(self, answered: Sequence[tuple[RunOpening, ModelCall, ModelAnswer]]) -> list[Exception | None]:
        """Append calls as `record` does; for each None, or why it is not in the log.

        Raises what concerns all of them, as an outage; then none is in the log.
        """
        refused: dict[int, Exception] = {}
        ready: dict[int, _ReadyCall] = {}
        for place, each in enumerate(answered):
            try:
                ready[place] = self._prepare(*each)
            except LogUnavailable:
                raise
            except _OWN_FAULTS as problem:
                refused[place] = problem
        refused |= self._put(ready)
        found = refused | self._append({place: each for place, each in ready.items() if place not in refused})
        return [found[place] for place in range(len(answered))]

    def _put(self, ready: Mapping[int, _ReadyCall]) -> dict[int, Exception]:
        """Put the blobs of calls. Returns why those of some were refused, which takes no other with it."""
        try:
            for are_new in (True, False):
                blobs = [blob for each in ready.values() if each.is_first is are_new for blob in each.blobs]
                without_flush(self.house.blobs, are_new=are_new).put(blobs)
        except BAD_DATA as problem:
            if len(ready) == 1:
                return dict.fromkeys(ready, problem)
            return {place: problem for each in ready.items() for place, problem in self._put(dict([each])).items()}
        return {}

    def _prepare(self, opening: RunOpening, call: ModelCall, answer: ModelAnswer) -> _ReadyCall:
        event, blobs = call_event(opening.run, call, answer, self.served)
        known = self._progress(opening)
        is_first = not known.calls  # later ones tell again what earlier ones told
        steps: tuple[StepTaken, ...] = ()
        if not is_first:  # what a first call tells was not done in this run
            steps, more = steps_of_results(opening.run, call.messages, [blob.digest for blob in blobs])
            blobs = (*blobs, *more)
        return _ReadyCall(opening, event, steps, blobs, is_first)

    def lose(self, problem: FlywheelError) -> None:
        """See CallRecorder. Nothing: whoever runs the agent says how its run ended."""

    def _append(self, ready: Mapping[int, _ReadyCall]) -> dict[int, Exception | None]:
        """Append each call at its run's next number, all in one transaction; for each None, or its error.

        Who lost a race against another process takes the number after it.
        """
        found: dict[int, Exception | None] = {}
        while left := {place: each for place, each in ready.items() if place not in found}:
            asked: dict[int, tuple[EncodedAppend, RunProgress]] = {}
            ahead: dict[tuple[str, str], RunProgress] = {}  # where runs stand once the calls before are appended
            for place, each in left.items():
                key = _key(each.opening)
                try:
                    asked[place] = _next_append(each, ahead.get(key) or self._progress(each.opening))
                    ahead[key] = asked[place][1]
                except (*_OWN_FAULTS, SQLAlchemyError) as problem:
                    found[place] = problem
            outcomes = self._try_append([append for append, _ in asked.values()])
            for (place, (_, after)), outcome in zip(asked.items(), outcomes, strict=True):
                if isinstance(outcome, Conflict):
                    self._forget(ready[place].opening)
                    continue
                if isinstance(outcome, Committed):
                    self._remember(ready[place].opening, replace(after, position=outcome.last))
                found[place] = outcome if isinstance(outcome, Exception) else None
        return found

    def _try_append(self, appends: Sequence[EncodedAppend]) -> list[Outcome | Exception]:
        """What became of each; where the database refuses data of one, of each by itself."""
        try:
            return list(self.house.store.append_encoded(appends))
        except (FlywheelError, SQLAlchemyError) as problem:
            if len(appends) == 1 or not isinstance(problem, BAD_DATA):
                return [problem] * len(appends)
            return [outcome for each in appends for outcome in self._try_append([each])]

    def _progress(self, opening: RunOpening) -> RunProgress:
        """Where the run stands. Raises OthersRun, RunClosed."""
        with self._lock:
            known = self._known.get(_key(opening))
        found = known if known is not None else self._read(opening)
        if found is None:
            raise RunClosed(run=opening.run, actual="it is not in the log")
        return found

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


def _next_append(ready: _ReadyCall, known: RunProgress) -> tuple[EncodedAppend, RunProgress]:
    """The append of a call where its run stands so, without steps that another call told, and where it stands after.

    The position after is known once it is committed. Raises UnstorableText.
    """
    fresh = [step for step in ready.steps if step.told_by not in known.told]
    taken = (step.model_copy(update={"index": known.steps + more}) for more, step in enumerate(fresh))
    events: tuple[AnyEvent, ...] = (*taken, ready.event.model_copy(update={"index": known.calls}))
    opening, told = ready.opening, known.told | {step.told_by for step in fresh if step.told_by is not None}
    version, steps = known.version + len(events), known.steps + len(fresh)
    append = Append(stream=f"run/{opening.run}", events=events, actor=opening.actor, expect=known.version)
    return encode_append(append), RunProgress(version, known.calls + 1, known.position, steps, told)


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


def _key(opening: RunOpening) -> tuple[str, str]:
    """Key under which a run is remembered, for one token: another one's calls are refused by the log."""
    return opening.token, opening.run
