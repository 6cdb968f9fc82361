from __future__ import annotations

import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventlog.events import RewardName
from projections.datasets.variance import GroupClass, classes, classify_group
from projections.groups import GroupState, Sibling
from tests.unit.test_agent_samples import a_store, add, views
from tests.unit.test_folds_runs import reset
from tests.unit.test_folds_samples import changed, graded, started

MICRO = 1_000_000


def sibling(index: int = 0, **changes: Any) -> Sibling:
    """A graded sibling of the group proper."""
    plain = {"fingerprint": "a", "score": 0, "passed": False, "value": 0, "shaping": "shaped-1", "shaped": 0}
    return Sibling(run=f"r{index}", index=index, **{**plain, **changes})


def group(*siblings: Sibling) -> GroupState:
    numbered = (replace(each, run=f"r{index}", index=index) for index, each in enumerate(siblings))
    return GroupState(group="g", siblings=tuple(numbered))


def classed(*siblings: Sibling) -> GroupClass:
    return classify_group(group(*siblings), "shaped")


WORTHS = st.none() | st.integers(-MICRO, 4 * MICRO)
SIBLINGS = st.lists(
    st.builds(
        sibling,
        passed=st.none() | st.booleans(),
        score=st.integers(0, MICRO),
        value=WORTHS,
        shaped=WORTHS,
        candidate=st.sampled_from([None, None, "rw"]),
        withheld=st.sampled_from([None, None, None, "rw"]),
        missing=st.booleans(),
        fingerprint=st.sampled_from([None, "a", "a", "b"]),
    ),
    max_size=8,
)


def test_mixed_outcomes_make_a_group_usable() -> None:
    assert classed(sibling(passed=True, score=MICRO), sibling()) == GroupClass(
        n=2,
        n_pass=1,
        distinct_outcomes=2,
        reward_std_micro=0,
        shaped_std_micro=0,
        grpo_usable=True,
        reason="mixed outcomes",
    )


@pytest.mark.parametrize(
    ("shaped", "usable", "reason"),
    [
        ((0, 100_000), True, "shaped reward variance (0.05)"),
        ((0, 99_999), False, "degenerate: all fail (0/2) and shaped std 0.049999 < 0.05"),
        ((-70_000, 70_000), True, "shaped reward variance (0.07)"),
        ((MICRO, MICRO), False, "degenerate: all fail (0/2) and shaped std 0 < 0.05"),
        ((None, MICRO), False, "degenerate: all fail (0/2) and shaped std 0 < 0.05"),
    ],
)
def test_equal_outcomes_are_usable_from_a_spread_of_a_twentieth_on(
    shaped: tuple[int | None, int], usable: bool, reason: str
) -> None:
    found = classed(*(sibling(shaped=each) for each in shaped))
    assert (found.grpo_usable, found.reason) == (usable, reason)


@pytest.mark.parametrize(("reward", "usable"), [("value", True), ("score", False), ("shaped", False)])
def test_the_spread_that_decides_is_that_of_the_reward_that_was_named(reward: RewardName, usable: bool) -> None:
    found = classify_group(group(sibling(value=0), sibling(value=200_000)), reward)
    assert (found.grpo_usable, found.reward_std_micro) == (usable, 100_000 if usable else 0)


def test_a_group_that_all_passed_says_so_and_one_without_grades_too() -> None:
    passed = classed(*(sibling(passed=True, score=MICRO) for _ in range(3)))
    assert passed.reason == "degenerate: all pass (3/3) and shaped std 0 < 0.05"
    assert classed() == GroupClass(0, 0, 0, 0, 0, grpo_usable=False, reason="degenerate: no graded sibling")


@pytest.mark.parametrize(
    "changes",
    [{"candidate": "rw"}, {"withheld": "rw"}, {"missing": True}, {"passed": None}, {"fingerprint": "b"}],
    ids=str,
)
def test_who_is_treated_withheld_missing_ungraded_or_contaminated_is_left_out(changes: dict[str, Any]) -> None:
    odd = sibling(**{"passed": True, "score": MICRO, "shaped": 2 * MICRO, **changes})
    found = classed(sibling(), sibling(), odd)
    assert (found.n, found.n_pass, found.grpo_usable) == (2, 0, False)


def test_shaped_returns_of_two_formulas_are_not_compared() -> None:
    found = classed(sibling(), sibling(shaping="shaped-2", shaped=MICRO))
    assert (found.shaped_std_micro, found.grpo_usable) == (0, False)


@given(SIBLINGS)
def test_a_spread_is_the_population_deviation_rounded_down_whatever_the_order(siblings: list[Sibling]) -> None:
    state = group(*siblings)
    for name in ("score", "value", "shaped"):
        found = classify_group(state, name)
        kept = [
            getattr(each, name)
            for each in state.siblings
            if each.is_plain
            and not each.missing
            and each.passed is not None
            and each.run not in state.contaminated_siblings
            and getattr(each, name) is not None
        ]
        exact = statistics.pvariance(map(int, kept)) if kept else 0
        assert found.reward_std_micro**2 <= exact < (found.reward_std_micro + 1) ** 2
        assert classify_group(group(*reversed(siblings)), name) == found
        assert found.grpo_usable == (found.distinct_outcomes > 1 or found.reward_std_micro >= 50_000)
        assert 0 <= found.n_pass <= found.n <= len(siblings)


@given(SIBLINGS, st.integers(-MICRO, MICRO))
def test_what_every_sibling_earns_more_changes_no_spread(siblings: list[Sibling], more: int) -> None:
    moved = [replace(each, shaped=None if each.shaped is None else each.shaped + more) for each in siblings]
    assert classify_group(group(*moved), "shaped") == classify_group(group(*siblings), "shaped")


def test_the_groups_of_a_sweep_are_read_from_views_without_those_of_an_evaluation() -> None:
    store = a_store()
    for name, outcomes in (("s1__a", (True, False)), ("s1__b", (False, False)), ("s2__a", (True, False))):
        for index, passed in enumerate(outcomes):
            run = f"{name}__s{index}"
            events = started(run, name, index), reset("a", run, name), graded(run, name, passed=passed)
            add(store, f"run/{run}", *events)
    arm = {"evaluation": "s1", "benchmark": "b", "arm": "champion", "repeat": 0, "is_sealed": True}
    for index, passed in enumerate((True, False)):
        run = f"s1__e__r{index}"
        add(store, f"run/{run}", changed(started(run, "s1__e", index), "arm", arm), graded(run, "s1__e", passed=passed))
    found = classes(views(store), "s1")
    assert {name: (each.n_pass, each.grpo_usable) for name, each in found.items()} == {
        "s1__a": (1, True),
        "s1__b": (0, False),
    }
