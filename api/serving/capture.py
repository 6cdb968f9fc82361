"""Record the model calls of outside runs: the run is opened at its first call, and each call is an event of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from anyio import CancelScope, to_thread
from sqlalchemy.exc import SQLAlchemyError

from eventlog.blobs.postgres import without_flush
from eventlog.codec import EncodedAppend
from eventlog.errors import FlywheelError, LogUnavailable
from eventlog.events import (
    Artifact,
    RewardGraded,
    RunFinished,
    RunMissing,
    RunStarted,
    StepTaken,
)
from eventlog.group_commit import BAD_DATA
from eventlog.store import START, Append, Committed, Position, Repeated

from ..errors import OthersRun
from ..house import House
from ..run_owners import actors_of
from .call_appends import ReadyCall, RunOpening, RunProgress, next_append, progress_after
from .calls import READ_HERE, ModelAnswer, ModelCall
from .errors import RunClosed
from .outside_facts import NOTHING, call_event, outside_start
from .together import Together
from .tool_steps import steps_of_results

EXECUTOR: Final = "proxy"
_REMEMBERED: Final = 4096
SWEEP: Final = "ext-proxy"
_OWN_FAULTS: Final = (FlywheelError, ValueError, RecursionError, *BAD_DATA)
"""Faults of one call: what it holds cannot be recorded, or its run cannot take it."""


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
            return
        with CancelScope(shield=True):
            (problem,) = await to_thread.run_sync(self.record_each, [answered])
        if problem is not None:
            raise problem

    def record_each(self, answered: Sequence[tuple[RunOpening, ModelCall, ModelAnswer]]) -> list[Exception | None]:
        """Append calls as `record` does; for each None, or why it is not in the log.

        Raises what concerns all of them, as an outage; then none is in the log.
        """
        refused: dict[int, Exception] = {}
        ready: dict[int, ReadyCall] = {}
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

    def _put(self, ready: Mapping[int, ReadyCall]) -> dict[int, Exception]:
        """Put the blobs of calls. Returns why the database refused data of some, which takes no other with it."""
        try:
            for are_new in (True, False):
                blobs = [blob for each in ready.values() if each.is_first is are_new for blob in each.blobs]
                without_flush(self.house.blobs, are_new=are_new).put(blobs)
        except BAD_DATA as problem:
            if len(ready) == 1:
                return dict.fromkeys(ready, problem)
            return {place: problem for each in ready.items() for place, problem in self._put(dict([each])).items()}
        return {}

    def _prepare(self, opening: RunOpening, call: ModelCall, answer: ModelAnswer) -> ReadyCall:
        event, blobs = call_event(opening.run, call, answer, self.served)
        known = self._progress(opening)
        is_first = not known.calls  # later ones tell again what earlier ones told
        steps: tuple[StepTaken, ...] = ()
        if not is_first:  # what a first call tells was not done in this run
            steps, more = steps_of_results(opening.run, call.messages, [blob.digest for blob in blobs])
            blobs = (*blobs, *more)
        return ReadyCall(opening, event, steps, blobs, is_first)

    def lose(self, problem: FlywheelError) -> None:
        """See CallRecorder. Nothing: whoever runs the agent says how its run ended."""

    def _append(self, ready: Mapping[int, ReadyCall]) -> dict[int, Exception | None]:
        """Append calls in one transaction, those of a run at its next numbers; for each None, or its error.

        A run that was appended to meanwhile is read anew.
        """
        found: dict[int, Exception | None] = {}
        while left := {place: each for place, each in ready.items() if place not in found}:
            asked: list[tuple[Mapping[int, ReadyCall], EncodedAppend, RunProgress]] = []
            for calls in _by_run(left):
                try:
                    known = self._progress(next(iter(calls.values())).opening)
                    asked.append((calls, *next_append(list(calls.values()), known)))
                except (*_OWN_FAULTS, SQLAlchemyError) as problem:
                    found |= self._append_alone(calls, problem)
            try:
                outcomes = self.house.store.append_encoded([append for _, append, _ in asked])
            except BAD_DATA as problem:
                return found | self._append_alone({place: left[place] for place in left if place not in found}, problem)
            except (FlywheelError, SQLAlchemyError) as problem:
                return dict.fromkeys(left, problem) | found
            for (calls, _, after), outcome in zip(asked, outcomes, strict=True):
                opening = next(iter(calls.values())).opening
                if isinstance(outcome, Committed | Repeated):
                    self._remember(opening, replace(after, position=outcome.last))
                    found |= dict.fromkeys(calls)
                else:
                    self._forget(opening)
        return found

    def _append_alone(self, calls: Mapping[int, ReadyCall], problem: Exception) -> dict[int, Exception | None]:
        """Append each of these calls by itself, as one of them has a problem and nothing of them was written."""
        if len(calls) == 1:
            return dict.fromkeys(calls, problem)
        found: dict[int, Exception | None] = {}
        for each in calls.items():
            found |= self._append(dict([each]))
        return found

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
            found = progress_after(found or RunProgress(0, 0, START), recorded)
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


def _key(opening: RunOpening) -> tuple[str, str]:
    """Key under which a run is remembered, for one token: another one's calls are refused by the log."""
    return opening.token, opening.run


def _by_run(ready: Mapping[int, ReadyCall]) -> Iterable[Mapping[int, ReadyCall]]:
    found: dict[tuple[str, str], dict[int, ReadyCall]] = {}
    for place, each in ready.items():
        found.setdefault(_key(each.opening), {})[place] = each
    return found.values()
