"""Dispatch by state key, in one process and out of the durable queue: the same promises."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import Protocol

import pytest
from sqlalchemy import Engine, text

from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.dispatching.durable import Facts, Notice, Runner, Terms
from agents.rollouts.dispatching.queue import JobTicket, RolloutQueue
from agents.rollouts.dispatching.state_keys import StateKey
from agents.rollouts.errors import SessionWithoutKey

PATIENCE_S = 60.0
Named = tuple[str, str | None]
"""A call: its name, and its session where it is of one."""
Work = Callable[[str], None]
Endings = dict[str, list[str]]
"""How each call ended, by name; a right list has one entry."""


class Way(Protocol):
    """A way of dispatching."""

    def run(self, calls: Sequence[Named], work: Work, max_parallel: int = 4, timeout_s: float = 60.0) -> Endings:
        """Do all the calls."""
        ...

    def cancel(self) -> None:
        """Give out no more."""
        ...


@dataclass
class InOneProcess:
    """The dispatcher in one process."""

    dispatch: Dispatch[str, None] | None = None

    def run(self, calls: Sequence[Named], work: Work, max_parallel: int = 4, timeout_s: float = 60.0) -> Endings:
        made = [Call(name, key, session=key is not None) for name, key in calls]
        self.dispatch = Dispatch(made, lambda name, _: work(name), max_parallel=max_parallel, timeout_s=timeout_s)
        found: Endings = {name: [] for name, _ in calls}
        for outcome in self.dispatch.outcomes():
            found[outcome.call.work].append(outcome.ending)
        return found

    def cancel(self) -> None:
        assert self.dispatch is not None
        self.dispatch.cancel()


@dataclass
class OutOfTheQueue:
    """One worker at the durable queue."""

    engine: Engine
    given_up: list[str] = field(default_factory=list)

    @property
    def queue(self) -> RolloutQueue:
        return RolloutQueue(self.engine, "marketplace")

    def run(self, calls: Sequence[Named], work: Work, max_parallel: int = 4, timeout_s: float = 60.0) -> Endings:
        assert self.queue.put([JobTicket("s", name, key) for name, key in calls]) == len(calls)
        found: Endings = {name: [] for name, _ in calls}

        def play(ticket: JobTicket, _: StateKey) -> Facts:
            work(ticket.spec)
            return {}

        def tell(notice: Notice) -> None:
            if notice.ticket is not None and notice.kind in ("played", "parked", "timed_out"):
                found[notice.ticket.spec].append("failed" if notice.kind == "parked" else notice.kind)

        def give_up(ticket: JobTicket) -> None:
            self.given_up.append(ticket.spec)

        terms = Terms(max_parallel, timeout_s=timeout_s, until_empty=True)
        asyncio.run(Runner(self.queue, play, give_up, lambda: 0, tell, terms).run(asyncio.Event()))
        for name, status in self.left():
            if status == "cancelled":
                found[name].append(status)
        return found

    def left(self) -> list[tuple[str, str]]:
        with self.engine.connect() as connection:
            rows = connection.execute(text("SELECT args->>'spec', status::text FROM procrastinate_jobs ORDER BY id"))
            return [(name, status) for name, status in rows]

    def cancel(self) -> None:
        self.queue.cancel("s")


@pytest.fixture(params=["process", "queue"])
def way(request: pytest.FixtureRequest) -> Way:
    if request.param == "process":
        return InOneProcess()
    return OutOfTheQueue(request.getfixturevalue("empty_engine"))


@dataclass
class Watch:
    """What was seen: beginnings and ends in their order, and how many were under way at most."""

    seen: list[tuple[str, str]] = field(default_factory=list)
    most: int = 0
    failing: frozenset[str] = frozenset()
    lock: Lock = field(default_factory=Lock)
    pause: Event = field(default_factory=Event)

    def work(self, name: str) -> None:
        self.note("begin", name)
        self.pause.wait(0.002)  # lets the others in; nothing depends on how long
        self.note("end", name)
        if name in self.failing:
            raise RuntimeError(f"{name} failed")

    def note(self, what: str, name: str) -> None:
        with self.lock:
            self.seen.append((what, name))
            begun = Counter(each for each, _ in self.seen)
            self.most = max(self.most, begun["begin"] - begun["end"])

    def of(self, names: Sequence[str]) -> list[tuple[str, str]]:
        return [each for each in self.seen if each[1] in names]


def mixed(sessions: int, each: int, others: int) -> list[Named]:
    """Calls of sessions, dealt out in turn, with independent ones between them."""
    calls: list[Named] = []
    for number in range(each):
        calls += [(f"k{key}.{number}", f"k{key}") for key in range(sessions)]
        calls += [(f"free{number}.{other}", None) for other in range(others)]
    return calls


def in_turn(names: Sequence[str], tries: Counter[str]) -> list[tuple[str, str]]:
    """A session's calls as they must be seen: each ends before the next begins."""
    return [(what, name) for name in names for _ in range(tries[name]) for what in ("begin", "end")]


def test_a_session_runs_in_order_one_at_a_time_and_every_call_ends_once(way: Way) -> None:
    calls, watch = mixed(sessions=3, each=5, others=1), Watch()
    endings = way.run(calls, watch.work)
    assert endings == {name: ["played"] for name, _ in calls}
    for key in ("k0", "k1", "k2"):
        names = [name for name, session in calls if session == key]
        assert watch.of(names) == in_turn(names, Counter(names))
    assert watch.most <= 4


def test_one_at_a_time_is_the_order_of_submission(way: Way) -> None:
    calls, watch = mixed(sessions=2, each=3, others=1), Watch()
    way.run(calls, watch.work, max_parallel=1)
    assert [name for what, name in watch.seen if what == "begin"] == [name for name, _ in calls]
    assert watch.most == 1


def test_sessions_run_beside_one_another_and_who_waits_for_a_turn_takes_no_room(way: Way) -> None:
    second, met = Event(), []

    def work(name: str) -> None:
        if name == "a0":
            met.append(second.wait(PATIENCE_S))
        if name == "b0":
            second.set()

    way.run([("a0", "a"), ("a1", "a"), ("a2", "a"), ("a3", "a"), ("b0", "b")], work, max_parallel=2)
    assert met == [True]


def test_a_head_that_fails_takes_nothing_from_those_behind_it(way: Way) -> None:
    calls, watch = mixed(sessions=2, each=3, others=0), Watch(failing=frozenset({"k0.0", "k1.1"}))
    endings = way.run(calls, watch.work)
    assert endings == {name: ["failed" if name in watch.failing else "played"] for name, _ in calls}
    tries = Counter(name for what, name in watch.seen if what == "begin")
    for key in ("k0", "k1"):
        names = [name for name, session in calls if session == key]
        assert watch.of(names) == in_turn(names, tries)


def test_cancelling_gives_out_no_more_and_what_is_under_way_ends(way: Way) -> None:
    def work(name: str) -> None:
        if name == "a0":
            way.cancel()

    endings = way.run([("a0", "a"), ("a1", "a"), ("x", None), ("y", None)], work, max_parallel=1)
    assert endings == {"a0": ["played"], "a1": ["cancelled"], "x": ["cancelled"], "y": ["cancelled"]}


def test_a_call_past_its_time_is_left_to_itself_and_its_session_goes_on(way: Way) -> None:
    release, watch = Event(), Watch()

    def work(name: str) -> None:
        if name == "a0":
            release.wait(PATIENCE_S)
        watch.work(name)

    try:
        endings = way.run([("a0", "a"), ("a1", "a"), ("x", None)], work, timeout_s=2.0, max_parallel=1)
    finally:
        release.set()
    assert endings == {"a0": ["timed_out"], "a1": ["played"], "x": ["played"]}
    if isinstance(way, OutOfTheQueue):
        assert way.given_up == ["a0"]


def test_a_call_of_a_session_needs_the_sessions_key() -> None:
    with pytest.raises(SessionWithoutKey):
        Call("x", None, session=True)
    assert replace(Call("x", "k", session=True), session=False).state_key == "k"
