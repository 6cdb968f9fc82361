"""The demo's intervals count seeds: tasks that meet at a seed are no independent runs."""

from __future__ import annotations

from benchmarks.demo_fast.playing import Outcome
from benchmarks.demo_fast.seeds import seed_difference, seed_interval
from gate.intervals import wilson


def played(tasks: int, passed: list[bool]) -> list[Outcome]:
    """Tasks that pass together, seed by seed."""
    return [
        Outcome("row", "site", f"task{task}", "cluster", seed, True, 0, ok, 0, 0)
        for seed, ok in enumerate(passed)
        for task in range(tasks)
    ]


HALF = [seed % 2 == 0 for seed in range(24)]


def test_tasks_that_pass_together_tell_no_more_than_one_of_them() -> None:
    one, ten = seed_interval(played(1, HALF)), seed_interval(played(10, HALF))
    assert one == wilson(12, 24)
    assert ten.high - ten.low > 0.9 * (one.high - one.low)
    assert ten.low < 500_000 < ten.high


def test_tasks_that_differ_inside_a_seed_narrow_the_interval() -> None:
    both = played(1, HALF) + [
        Outcome("row", "site", "other", "cluster", seed, True, 0, not ok or seed < 4, 0, 0)
        for seed, ok in enumerate(HALF)
    ]
    narrow = seed_interval(both)
    assert narrow.high - narrow.low < 200_000


def test_seeds_that_all_agree_keep_an_interval() -> None:
    assert seed_interval(played(2, [True] * 25)) == wilson(25, 25)
    assert seed_interval([]) == wilson(0, 0)


def test_the_difference_of_two_rows_counts_seeds() -> None:
    assert seed_difference(played(10, HALF), played(10, [False] * 24), 0.05) == seed_difference(
        played(1, HALF), played(1, [False] * 24), 0.05
    )
