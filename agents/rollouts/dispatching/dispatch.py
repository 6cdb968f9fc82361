"""Parallel dispatch of calls by state key, in one process.

Independent calls start as soon as a slot is free. Calls of a session run one after another in the order they were
given, and a call that waits for its turn takes no slot. Every call has one outcome; a failure affects no other call.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any, Generic, Literal, TypeVar

from ..errors import SessionWithoutKey
from .state_keys import StateKey, resolve_keys

MAX_PARALLEL = 4
W = TypeVar("W")
R = TypeVar("R")

Ending = Literal["played", "failed", "cancelled", "timed_out"]
"""How a call ended: with a result, with an error, cancelled before its start or while running, or timed out."""


@dataclass(frozen=True, slots=True)
class Call(Generic[W]):
    """Work under a state key. Calls of a session share the key; an independent call uses it as prefix of a new key.

    Raises SessionWithoutKey.
    """

    work: W
    state_key: str | None = None
    session: bool = False

    def __post_init__(self) -> None:
        if self.session and not self.state_key:
            raise SessionWithoutKey(actual=self.state_key)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[W, R]):
    """How a call ended; `place` is its index among the calls."""

    place: int
    call: Call[W]
    state: StateKey
    ending: Ending
    result: R | None = None
    error: BaseException | None = None


class Dispatch(Generic[W, R]):
    """Executes calls with `work`, at most `max_parallel` at once (1: one after another, in the order given).

    A call that takes longer than `timeout_s` is abandoned: its thread goes on, its result is dropped, and its key is
    released. Raises ValueError if `max_parallel` is below 1.
    """

    def __init__(
        self,
        calls: Sequence[Call[W]],
        work: Callable[[W, StateKey], R],
        *,
        max_parallel: int = MAX_PARALLEL,
        timeout_s: float | None = None,
    ) -> None:
        if max_parallel < 1:
            raise ValueError(f"max_parallel is {max_parallel}; expected at least 1")
        self._calls = tuple(calls)
        self._states = resolve_keys([(call.state_key, call.session) for call in calls])
        self._work = work
        self._max_parallel = max_parallel
        self._allowed_s = math.inf if timeout_s is None else timeout_s
        self._stop: Future[float] = Future()

    def cancel(self, *, within_s: float | None = None) -> None:
        """Start no more calls; running ones end, or are abandoned after `within_s` seconds.

        May be called from any thread and from a signal handler; only the first call has an effect.
        """
        with suppress(InvalidStateError):
            self._stop.set_result(math.inf if within_s is None else time.monotonic() + within_s)

    def outcomes(self) -> Generator[Outcome[W, R], None, None]:
        """Yield each call's outcome as the call ends; calls that were not started come last. Can be read once.

        Closing the generator early starts no more calls and waits for the running ones.
        """
        lanes = _Lanes(self._calls)
        running: dict[Future[R], _Running] = {}
        try:
            while True:
                self._give_out(lanes, running)
                if not running:
                    break
                for future, ending in self._await_ended(running):
                    place = running.pop(future).place
                    lanes.free(place)
                    yield self._outcome(place, ending, future)
        finally:
            self.cancel()
            wait(running, timeout=_seconds_left(max((each.until for each in running.values()), default=math.inf)))
        for place in lanes.rest():
            yield Outcome(place, self._calls[place], self._states[place], "cancelled")

    def results(self) -> tuple[Outcome[W, R], ...]:
        """Every call's outcome, in the order the calls were given."""
        return tuple(sorted(self.outcomes(), key=lambda outcome: outcome.place))

    def _give_out(self, lanes: _Lanes, running: dict[Future[R], _Running]) -> None:
        while not self._stop.done() and len(running) < self._max_parallel and (place := lanes.next()) is not None:
            future = start_call(self._work, self._calls[place].work, self._states[place])
            running[future] = _Running(place, time.monotonic() + self._allowed_s)

    def _await_ended(self, running: dict[Future[R], _Running]) -> list[tuple[Future[R], Ending]]:
        """Wait until a call ends and return the ended calls by place; empty if only the stop arrived."""
        stop = self._stop.result() if self._stop.done() else math.inf
        until = min(stop, *(each.until for each in running.values()))
        waited: set[Future[Any]] = {*running} if self._stop.done() else {*running, self._stop}
        wait(waited, timeout=_seconds_left(until), return_when=FIRST_COMPLETED)
        now = time.monotonic()
        found: list[tuple[Future[R], Ending]] = []
        for future, each in sorted(running.items(), key=lambda item: item[1].place):
            if future.done():
                found.append((future, "played" if future.exception() is None else "failed"))
            elif each.until <= now:
                found.append((future, "timed_out"))
            elif stop <= now:
                found.append((future, "cancelled"))
        return found

    def _outcome(self, place: int, ending: Ending, future: Future[R]) -> Outcome[W, R]:
        call, state = self._calls[place], self._states[place]
        if ending == "played":
            return Outcome(place, call, state, ending, result=future.result())
        return Outcome(place, call, state, ending, error=future.exception() if ending == "failed" else None)


@dataclass(frozen=True, slots=True)
class _Running:
    place: int
    until: float


class _Lanes:
    """Order of calls: the next one is the first whose session has no running or earlier call."""

    def __init__(self, calls: Sequence[Call[W]]) -> None:
        self._keys = [call.state_key if call.session else None for call in calls]
        self._behind: dict[str, deque[int]] = {}
        self._ready: list[int] = []
        for place, key in enumerate(self._keys):
            if key is None or key not in self._behind:
                self._ready.append(place)
            if key is not None:
                self._behind.setdefault(key, deque()).append(place)

    def next(self) -> int | None:
        return heapq.heappop(self._ready) if self._ready else None

    def free(self, place: int) -> None:
        """Make the next call of an ended call's session ready."""
        key = self._keys[place]
        if key is None:
            return
        self._behind[key].popleft()
        if self._behind[key]:
            heapq.heappush(self._ready, self._behind[key][0])

    def rest(self) -> list[int]:
        """Calls that were not started, in order."""
        waiting = {place for lane in self._behind.values() for place in lane}
        return sorted(waiting.union(self._ready))


def start_call(work: Callable[[W, StateKey], R], given: W, state: StateKey) -> Future[R]:
    """Start work in a new daemon thread, which does not delay the exit of the process."""
    return beside(lambda: work(given, state), f"call {state.key}")


def beside(work: Callable[[], R], name: str) -> Future[R]:
    """Start work without arguments in a new daemon thread of this name."""
    future: Future[R] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 a call's error is its outcome, the others go on
            future.set_exception(error)
        else:
            future.set_result(result)

    Thread(target=run, name=name, daemon=True).start()
    return future


def _seconds_left(until: float) -> float | None:
    return None if until == math.inf else max(0.0, until - time.monotonic())
