"""The choice between both loops: what holds of it whatever they gained and cost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.controllers.both_next import choose_loop, credit_turn, describe_choice, worth_of
from eventlog.events import CourseLoop, LoopChosen, LoopReason, LoopRecord

LOOPS: tuple[CourseLoop, ...] = ("fast", "slow")
COSTS = st.integers(0, 10**9)
GAINS = st.integers(0, 1_000_000)


def a_record(*turns: tuple[int, int], loop: str = "fast") -> LoopRecord:
    """The record of a loop after turns of these gains and costs."""
    record = LoopRecord(course=f"shop-{loop}", turns=0, cost=0, recent_gain=0, recent_cost=0)
    for gain, cost in turns:
        record = credit_turn(record, gain, cost)
    return record


RECORDS = st.lists(st.tuples(GAINS, COSTS), max_size=6).map(lambda turns: a_record(*turns))
TRIED = st.lists(st.tuples(GAINS, COSTS), min_size=1, max_size=6).map(lambda turns: a_record(*turns))


@given(RECORDS, RECORDS, st.sampled_from(LOOPS), st.booleans())
def test_a_loop_that_has_ended_is_not_chosen_and_after_both_ends_none_is(
    fast: LoopRecord, slow: LoopRecord, gone: CourseLoop, lacks_base: bool
) -> None:
    left = next(loop for loop in LOOPS if loop != gone)
    assert choose_loop(fast, slow, ended={gone}, lacks_base=lacks_base) == (left, "other_ended")
    assert choose_loop(fast, slow, ended=LOOPS, lacks_base=lacks_base) is None


@given(TRIED)
def test_each_loop_is_tried_before_they_are_compared(tried: LoopRecord) -> None:
    assert choose_loop(a_record(), a_record(), ended=()) == ("fast", "untried")
    assert choose_loop(tried, a_record(), ended=()) == ("slow", "untried")
    assert choose_loop(a_record(), tried, ended=()) == ("fast", "untried")


@given(RECORDS, RECORDS)
def test_without_a_base_the_slow_loop_waits_for_a_gain_or_the_end_of_the_fast_one(
    fast: LoopRecord, slow: LoopRecord
) -> None:
    found = choose_loop(fast, slow, ended=(), lacks_base=True)
    waits = not slow.turns and not fast.recent_gain
    assert found == (("fast", "no_base") if waits else choose_loop(fast, slow, ended=()))


@given(TRIED, TRIED)
def test_the_one_that_is_worth_more_is_chosen_and_of_equal_ones_the_fast_one(
    fast: LoopRecord, slow: LoopRecord
) -> None:
    wanted = "slow" if worth_of(slow) > worth_of(fast) else "fast"
    assert choose_loop(fast, slow, ended=()) == (wanted, "worth")
    assert choose_loop(fast, fast, ended=()) == ("fast", "worth")


@given(TRIED, GAINS, st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_gain_for_as_much_is_worth_more_and_as_much_for_more_cost_less(
    record: LoopRecord, gain: int, cost: int, further: int
) -> None:
    assert worth_of(credit_turn(record, gain + further, cost)) > worth_of(credit_turn(record, gain, cost))
    assert worth_of(credit_turn(record, gain, cost + further)) <= worth_of(credit_turn(record, gain, cost))


@given(st.integers(1, 1_000), st.integers(1, 1_000), st.integers(0, 100_000), st.integers(0, 100_000))
def test_none_of_two_that_gain_no_more_is_starved(fast: int, slow: int, first: int, second: int) -> None:
    costs, records = {"fast": fast, "slow": slow}, {"fast": a_record((first, fast)), "slow": a_record((second, slow))}
    spent = dict.fromkeys(LOOPS, 0)
    for _ in range(200):
        found = choose_loop(records["fast"], records["slow"], ended=())
        assert found is not None
        records[found[0]] = credit_turn(records[found[0]], 0, costs[found[0]])
        spent[found[0]] += costs[found[0]]
    least, most = sorted(records.values(), key=lambda each: each.cost)
    assert most.cost <= 3 * (least.cost + max(costs.values()))


def test_a_gain_lately_counts_more_than_one_of_long_ago() -> None:
    lately, long_ago = a_record((0, 100), (300_000, 100)), a_record((300_000, 100), (0, 100))
    assert choose_loop(lately, long_ago, ended=()) == ("fast", "worth")
    assert choose_loop(long_ago, lately, ended=()) == ("slow", "worth")


@pytest.mark.parametrize(
    ("loop", "reason", "said"),
    [
        ("slow", "other_ended", "the fast loop has ended: all passed; continuing with the slow loop"),
        ("fast", "no_base", "the fast loop plays: the slow one has no base model yet, .*"),
        ("slow", "untried", "the slow loop plays: it has not had a turn yet"),
        ("fast", "worth", r"the fast loop plays: 0.25 gained lately for \$0.1, against 0 .* for \$2 by the slow one"),
        ("slow", "worth", r"the slow loop plays: 0 gained .*, against 0.25 .*; it has cost too little in all to .*"),
    ],
)
def test_what_is_said_of_a_choice_names_the_loop_and_the_reason(
    loop: CourseLoop, reason: LoopReason, said: str
) -> None:
    chosen = LoopChosen(
        environment="shop",
        loop=loop,
        reason=reason,
        fast=a_record((250_000, 100_000)),
        slow=a_record((0, 2_000_000)),
        optimism=100_000,
        keep=500_000,
    )
    assert re.fullmatch(said, describe_choice(chosen, "all passed"))
