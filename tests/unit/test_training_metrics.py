"""What a step measured, as the log keeps it."""

from __future__ import annotations

import pytest

from api.training.stages import metrics_of


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1.5, "1.5"),
        (100, "100"),
        (0.12345678951, "0.12345679"),
        (1e-12, "0"),
        (-1e-12, "0"),
        (-0.25, "-0.25"),
        (1e19, "10000000000000000000"),
        (-1.5e300, "-15" + "0" * 299),
        (float("inf"), None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_a_measure_of_any_size_is_a_decimal_string(value: float | None, kept: str | None) -> None:
    assert metrics_of({"loss": value}).loss == kept
