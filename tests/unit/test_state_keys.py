"""State keys: fresh ones for independent calls, names that no two keys share."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rollouts.dispatching.state_keys import (
    LONGEST_STEM,
    StateKey,
    independent,
    plain_name,
    resolve_keys,
    session,
)

KEYS = st.one_of(st.none(), st.sampled_from(["auto", "a", "auto-0001", "a-0002"]), st.text(min_size=1, max_size=5))


def test_independent_calls_get_fresh_keys_and_a_sessions_calls_their_own() -> None:
    assert resolve_keys([(None, False), ("shop", False), ("shop", True), (None, False)]) == (
        StateKey("auto-0001", is_kept=False),
        StateKey("shop-0002", is_kept=False),
        StateKey("shop", is_kept=True),
        StateKey("auto-0003", is_kept=False),
    )


@given(st.lists(st.tuples(KEYS, st.booleans()), max_size=12))
def test_no_two_calls_share_a_key_but_those_of_a_session(calls: list[tuple[str | None, bool]]) -> None:
    calls = [(key, is_session and key is not None) for key, is_session in calls]
    states = resolve_keys(calls)
    fresh = [state.key for state in states if not state.is_kept]
    kept = {state.key for state in states if state.is_kept}
    assert len(set(fresh)) == len(fresh)
    assert not kept & set(fresh)
    assert [state.key for state in states if state.is_kept] == [key for key, is_session in calls if is_session]


@pytest.mark.parametrize("key", ["a/b c", "../../etc", "ünïcode", "x" * 500, "a\nb", "plain"])
def test_a_profile_is_a_name_that_any_file_system_and_channel_takes(key: str) -> None:
    name = session(key).profile
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", name)
    assert len(name) <= LONGEST_STEM + 13
    assert session(key).resume != name


@given(st.text(max_size=80), st.text(max_size=80))
def test_different_keys_never_share_a_profile(one: str, other: str) -> None:
    assert (plain_name(one) == plain_name(other)) == (one == other)


def test_keys_that_read_the_same_when_sanitised_are_told_apart() -> None:
    assert session("a b").profile != session("a/b").profile
    assert session("a b").profile.startswith("a_b-")


def test_an_independent_run_is_known_by_its_id_and_keeps_nothing() -> None:
    assert independent("s1__t__seed0__s0") == StateKey("auto-s1__t__seed0__s0", is_kept=False)
