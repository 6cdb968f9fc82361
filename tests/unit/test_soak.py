"""What a soak calls flat, and what it reads of a process."""

from __future__ import annotations

import os

import pytest

from benchmarks.soak.flatness import growth
from benchmarks.soak.processes import held_by


@pytest.mark.parametrize(
    ("samples", "is_flat"),
    [
        ([100.0] * 30, True),
        ([float(number) for number in range(10)] + [100.0] * 20, True),
        ([100.0 + number for number in range(30)], False),
        ([100.0] * 20 + [107.9] * 10, True),
        ([100.0] * 20 + [108.1] * 10, False),
        ([1000.0] * 20 + [1049.0] * 10, True),
        ([1000.0] * 20 + [1051.0] * 10, False),
        ([100.0] * 10 + [200.0] * 10 + [100.0] * 10, True),
        ([100.0] * 25 + [900.0] + [100.0] * 4, True),
    ],
)
def test_memory_is_flat_if_the_last_third_is_hardly_above_the_middle_one(samples: list[float], is_flat: bool) -> None:
    found = growth("memory MiB", samples)
    assert found is not None
    assert found.is_flat == is_flat


def test_a_few_samples_say_nothing() -> None:
    assert growth("sockets", [1.0, 2.0]) is None


def test_handles_that_are_not_closed_are_seen() -> None:
    before = held_by(os.getpid())
    opened = [os.pipe() for _ in range(10)]
    after = held_by(os.getpid())
    for pair in opened:
        for handle in pair:
            os.close(handle)
    assert after["file handles"] - before["file handles"] == 20
    assert before["memory MiB"] > 1
