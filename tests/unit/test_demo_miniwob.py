"""What the demo on foreign pages makes of its runs: pairs, gains, intervals, targets."""

from __future__ import annotations

import pytest

from benchmarks.demo_miniwob.__main__ import (
    ABOVE_ZERO,
    OVER_INSTANCES,
    OVER_TASKS,
    families,
    figures_of,
    targets_of,
    without_pairs,
)
from benchmarks.demo_miniwob.held_out import FROZEN, LEARNED, Played


def test_gains_are_paired_by_instance_and_a_missing_run_makes_no_pair() -> None:
    figures, intervals = figures_of(
        [
            Played("a", FROZEN, (False, False, True, None)),
            Played("a", LEARNED, (True, False, False, True)),
            Played("b", FROZEN, (False, False, False, False)),
            Played("b", LEARNED, (True, True, True, True)),
        ]
    )
    assert figures["a, frozen"] == pytest.approx(1 / 3)
    assert figures["b, learned"] == 1
    assert figures[OVER_TASKS] == pytest.approx(0.5)
    assert (figures["pairs"], figures["tasks that gained"], figures["tasks that lost"]) == (7, 1, 0)
    low, high = intervals[OVER_TASKS]
    assert low <= 0 < high
    assert intervals[OVER_INSTANCES][0] <= 0.5 <= intervals[OVER_INSTANCES][1]


def test_a_task_without_a_pair_is_in_no_mean_and_is_named() -> None:
    played = [
        Played("a", FROZEN, (False, False)),
        Played("a", LEARNED, (True, True)),
        Played("b", FROZEN, (None, False)),
        Played("b", LEARNED, (True, None)),
    ]
    figures, _ = figures_of(played)
    assert without_pairs(played) == ("b",)
    assert (figures[OVER_TASKS], figures["pairs"], figures["tasks without a pair"]) == (1, 2, 1)
    assert (figures[f"all tasks, {FROZEN}"], figures[f"all tasks, {LEARNED}"]) == (0, 1)
    figures, intervals = figures_of(played[2:])
    assert (figures["pairs"], intervals) == (0, {})
    assert targets_of(figures) == {}


def test_the_target_is_an_interval_above_zero() -> None:
    (bound,) = targets_of({f"{OVER_TASKS}, interval from": 0.0}).values()
    assert not bound.is_met(0.0)
    assert bound.is_met(ABOVE_ZERO)


def test_one_task_of_each_family_is_taken() -> None:
    assert len(families()) >= 12
    assert {"click-tab-2", "click-tab-2-easy", "login-user-popup"}.isdisjoint(families())
