"""Dispatch in one process: whatever the calls are, each has one outcome, and sessions keep their order."""

from __future__ import annotations

from threading import Event, Lock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.dispatching.state_keys import StateKey

PATIENCE_S = 60.0
CALLS = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), max_size=16)
"""Each call's session, and whether it fails."""


@settings(deadline=None, max_examples=60)
@given(CALLS, st.integers(1, 5), st.one_of(st.none(), st.integers(0, 15)))
def test_any_calls_end_once_each_in_the_order_of_their_sessions(
    given_calls: list[tuple[str | None, bool]], max_parallel: int, cancel_at: int | None
) -> None:
    calls = [Call(place, key, session=key is not None) for place, (key, _) in enumerate(given_calls)]
    seen: list[tuple[str, int]] = []
    lock = Lock()

    def work(place: int, state: StateKey) -> str:
        with lock:
            seen.append(("begin", place))
        if place == cancel_at:
            dispatch.cancel()
        with lock:
            seen.append(("end", place))
        if given_calls[place][1]:
            raise ValueError(place)
        return state.key

    dispatch = Dispatch(calls, work, max_parallel=max_parallel)
    outcomes = dispatch.results()
    assert [outcome.place for outcome in outcomes] == list(range(len(calls)))
    begun = [place for what, place in seen if what == "begin"]
    for outcome in outcomes:
        was_given_out = outcome.place in begun
        expected = ("failed" if given_calls[outcome.place][1] else "played") if was_given_out else "cancelled"
        assert outcome.ending == expected
        assert (outcome.result == outcome.state.key) == (expected == "played")
        assert isinstance(outcome.error, ValueError) == (expected == "failed")
    if cancel_at is None:
        assert sorted(begun) == list(range(len(calls)))
    for key in ("a", "b", "c"):
        lane = [place for place in begun if given_calls[place][0] == key]
        assert [each for each in seen if each[1] in lane] == [(w, p) for p in lane for w in ("begin", "end")]
        assert lane == [place for place, (of, _) in enumerate(given_calls) if of == key][: len(lane)]
    under_way = 0
    for what, _ in seen:
        under_way += 1 if what == "begin" else -1
        assert under_way <= max_parallel


def test_outcomes_come_as_they_end_and_results_in_the_order_given() -> None:
    release = Event()

    def work(name: str, _: StateKey) -> None:
        if name == "slow":
            release.wait(PATIENCE_S)

    outcomes = Dispatch([Call("slow"), Call("quick")], work).outcomes()
    assert next(outcomes).call.work == "quick"
    release.set()
    assert next(outcomes).call.work == "slow"
    assert [each.call.work for each in Dispatch([Call("slow"), Call("quick")], work).results()] == ["slow", "quick"]


def test_after_a_cancel_with_a_limit_those_under_way_are_left_to_themselves() -> None:
    release = Event()

    def work(_: str, __: StateKey) -> None:
        dispatch.cancel(within_s=0)
        release.wait(PATIENCE_S)

    dispatch = Dispatch([Call("stuck"), Call("waiting")], work, max_parallel=1)
    try:
        assert [each.ending for each in dispatch.results()] == ["cancelled", "cancelled"]
    finally:
        release.set()


def test_a_dispatch_cancelled_beforehand_gives_out_nothing() -> None:
    dispatch = Dispatch([Call("x")], lambda *_: pytest.fail("it was given out"))
    dispatch.cancel()
    dispatch.cancel(within_s=1)
    assert [each.ending for each in dispatch.results()] == ["cancelled"]


def test_a_reader_that_leaves_early_lets_those_under_way_end_and_no_other_begin() -> None:
    ended: list[int] = []
    dispatch = Dispatch([Call(place) for place in range(9)], lambda place, _: ended.append(place), max_parallel=2)
    outcomes = dispatch.outcomes()
    next(outcomes)
    outcomes.close()
    assert 1 <= len(ended) <= 3


def test_even_a_call_that_ends_its_thread_has_an_outcome() -> None:
    def work(_: str, __: StateKey) -> None:
        raise SystemExit(3)

    (outcome,) = Dispatch([Call("x")], work).results()
    assert outcome.ending == "failed"
    assert isinstance(outcome.error, SystemExit)


@pytest.mark.parametrize("max_parallel", [0, -1])
def test_nothing_at_a_time_is_refused(max_parallel: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Dispatch([Call("x")], lambda *_: None, max_parallel=max_parallel)


def test_no_calls_have_no_outcomes() -> None:
    assert Dispatch([], lambda *_: None).results() == ()
