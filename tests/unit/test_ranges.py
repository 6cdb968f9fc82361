"""Which bytes of an answer a Range header asks for."""

from __future__ import annotations

import pytest

from api.routes.ranges import wanted_range

TAG = '"a"'


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, None),
        ("bytes=0-0", range(1)),
        ("bytes=2-5", range(2, 6)),
        ("bytes=2-", range(2, 10)),
        ("bytes=-3", range(7, 10)),
        ("bytes=-30", range(10)),
        ("bytes=5-99", range(5, 10)),
        ("bytes=10-", range(0)),
        ("bytes=-0", range(0)),
        ("bytes=5-2", None),
        ("bytes=0-1,4-5", None),
        ("bytes=-", None),
        ("lines=0-1", None),
        ("bytes=" + "9" * 40 + "-", None),
    ],
)
def test_a_range_is_clipped_empty_or_passed_over(asked: str | None, expected: range | None) -> None:
    assert wanted_range(asked, None, TAG, 10) == expected


def test_a_range_of_another_representation_asks_for_all() -> None:
    assert wanted_range("bytes=0-1", TAG, TAG, 10) == range(2)
    assert wanted_range("bytes=0-1", '"b"', TAG, 10) is None
    assert wanted_range("bytes=0-1", f"W/{TAG}", TAG, 10) is None
