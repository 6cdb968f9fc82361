"""Record the model calls of outside runs: the run is opened at its first call, and each call is an event of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from anyio import CancelScope, to_thread
from sqlalchemy.exc import SQLAlchemyError

from eventlog.blobs.postgres import without_flush
from eventlog.codec import EncodedAppend
from eventlog.database import database_error
from eventlog.errors import FlywheelError, LogUnavailable
from eventlog.events import (
    Artifact,
    RewardGraded,
    RunFinished,
    RunMissing,
    RunStarted,
)
from eventlog.group_commit import BAD_DATA
from eventlog.store import START, Append, Committed, Position, Repeated

from ..errors import OthersRun
from ..house import House
from ..run_owners import actors_of
from .call_appends import ReadyCall, ReadyRun, RunOpening, RunProgress, progress_after
from .calls import READ_HERE, ModelAnswer, ModelCall
from .errors import RunClosed
from .outside_facts import NOTHING, call_event, outside_start
from .together import Together
from .tool_steps import steps_of_results

EXECUTOR: Final = "proxy"
_REMEMBERED: Final = 4096
SWEEP: Final = "ext-proxy"
Answered = tuple[RunOpening, ModelCall, ModelAnswer]
Told = dict[int, Exception | None]
"""What became of calls, by their places: None for one that is in the log, else its error."""
_OWN_FAULTS: Final = (FlywheelError, ValueError, TypeError, RecursionError, *BAD_DATA)
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

    _together: Together[Answered, None] = field(init=False)

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
        prompts, which would hold the others up. Raises RunClosed, OthersRun, LogUnavailable and its kin, and ValueError
        for what JSON cannot hold.
        """
        answered = (opening, call, answer)
        if call.size <= READ_HERE:
            await self._together.answer(answered)
            return
        with CancelScope(shield=True):
            (problem,) = await to_thread.run_sync(self.record_each, [answered])
        if problem is not None:
            raise problem

    def record_each(self, answered: Sequence[Answered]) -> list[Exception | None]:
        """Append calls as `record` does; for each None, or why it is not known to be in the log."""
        found: Told = {}
        while left := {place: each for place, each in enumerate(answered) if place not in found}:
            try:
                found |= self._record_once(left)
            except (*_OWN_FAULTS, SQLAlchemyError) as problem:  # nothing of these is in the log
                found |= dict.fromkeys(left, problem)
        return [found[place] for place in range(len(answered))]

    def _record_once(self, answered: Mapping[int, Answered]) -> Told:
        """What became of calls, but for those of runs that were appended to meanwhile: they are to be tried again.

        Raises what concerns all of them, as an outage; then none is in the log.
        """
        found: Told = {}
        runs: list[ReadyRun] = []
        for calls in _by_run(answered):
            opening = next(iter(calls.values()))[0]
            try:
                known = self._progress(opening)
            except LogUnavailable:
                raise
            except _OWN_FAULTS as problem:
                found |= dict.fromkeys(calls, problem)
                continue
            ready: dict[int, ReadyCall] = {}
            for place, (_, call, answer) in calls.items():
                try:
                    is_first = not known.calls and not ready
                    ready[place] = self._prepare(opening.run, call, answer, is_first=is_first)
                except _OWN_FAULTS as problem:
                    found[place] = problem
            runs.append(ReadyRun(opening, known, ready))
        found |= self._put(runs)
        return found | self._append([_without(run, found) for run in runs])

    def _prepare(self, run: str, call: ModelCall, answer: ModelAnswer, *, is_first: bool) -> ReadyCall:
        event, blobs = call_event(run, call, answer, self.served)
        if is_first:  # what a first call tells was not done in this run
            return ReadyCall(event, (), blobs)
        steps, more = steps_of_results(run, call.messages, [blob.digest for blob in blobs])
        return ReadyCall(event, steps, (*blobs, *more))

    def _put(self, runs: Sequence[ReadyRun]) -> Told:
        """Put the blobs of calls. Returns why the database refused data of some, which takes no other with it."""
        try:
            for are_new in (True, False):  # later calls tell again what earlier ones told
                calls = [each for run in runs if are_new is not bool(run.known.calls) for each in run.calls.values()]
                without_flush(self.house.blobs, are_new=are_new).put([blob for each in calls for blob in each.blobs])
        except BAD_DATA as problem:
            return _each_alone(runs, problem, self._put)
        return {}

    def _append(self, runs: Sequence[ReadyRun]) -> Told:
        """Append ready calls in one transaction; for each None, or its error, but for those to be tried again."""
        found: Told = {}
        asked: list[tuple[ReadyRun, EncodedAppend, RunProgress]] = []
        for run in runs:
            try:
                asked += [(run, *run.next_append())] if run.calls else []
            except _OWN_FAULTS as problem:
                found |= _each_alone([run], problem, self._append)
        try:
            outcomes = self.house.store.append_encoded([append for _, append, _ in asked])
        except BAD_DATA as problem:
            return found | _each_alone([run for run, _, _ in asked], problem, self._append)
        except (FlywheelError, SQLAlchemyError) as problem:
            return found | {place: problem for run, _, _ in asked for place in run.calls}
        for (run, _, after), outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Committed | Repeated):
                self._remember(run.opening, replace(after, position=outcome.last))
                found |= dict.fromkeys(run.calls)
            else:
                self._forget(run.opening, run.known)
        return found

    def lose(self, problem: FlywheelError) -> None:
        """See CallRecorder. Nothing: whoever runs the agent says how its run ended."""

    def _progress(self, opening: RunOpening) -> RunProgress:
        """Where the run stands. Raises OthersRun, RunClosed."""
        with self._lock:
            known = self._known.get(_key(opening))
        try:
            found = known if known is not None else self._read(opening)
        except SQLAlchemyError as problem:
            raise database_error(problem) from problem
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
            known = self._known.get(_key(opening))
            if known is None or known.version < progress.version:  # else another thread came further
                self._known[_key(opening)] = progress
            self._known.move_to_end(_key(opening))
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def _forget(self, opening: RunOpening, stale: RunProgress) -> None:
        with self._lock:
            if self._known.get(_key(opening)) == stale:
                del self._known[_key(opening)]

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


def _by_run(answered: Mapping[int, Answered]) -> Iterable[Mapping[int, Answered]]:
    found: dict[tuple[str, str], dict[int, Answered]] = {}
    for place, each in answered.items():
        found.setdefault(_key(each[0]), {})[place] = each
    return found.values()


def _without(run: ReadyRun, told: Told) -> ReadyRun:
    return replace(run, calls={place: each for place, each in run.calls.items() if place not in told})


def _each_alone(runs: Sequence[ReadyRun], problem: Exception, act: Callable[[Sequence[ReadyRun]], Told]) -> Told:
    """What `act` does for each call by itself, as one of them has a problem; nothing of them was written."""
    alone = [replace(run, calls={place: each}) for run in runs for place, each in run.calls.items()]
    if len(alone) == 1:
        return dict.fromkeys(alone[0].calls, problem)
    found: Told = {}
    for run in alone:
        found |= act([run])
    return found
