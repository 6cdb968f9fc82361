"""A bucket of requests for each caller."""

from __future__ import annotations

import pytest

from api.routes.errors import TooManyRequests
from api.routes.problems import refusal
from api.routes.rates import RateLimit


def test_a_bucket_holds_ten_seconds_worth_and_fills_by_the_second() -> None:
    now = [0.0]
    limit = RateLimit(clock=lambda: now[0])
    for _ in range(20):
        limit.take("a", 2)
    with pytest.raises(TooManyRequests) as refused:
        limit.take("a", 2)
    assert (refused.value.facts["seconds"], refusal(refused.value).headers["Retry-After"]) == (1, "1")
    limit.take("b", 2)  # another caller has a bucket of its own
    now[0] = 0.5
    limit.take("a", 2)
    with pytest.raises(TooManyRequests):
        limit.take("a", 2)
    now[0] = 1_000.0
    for _ in range(20):
        limit.take("a", 2)
    with pytest.raises(TooManyRequests):
        limit.take("a", 2)


def test_a_slow_rate_says_how_long_to_wait() -> None:
    limit = RateLimit(clock=lambda: 0.0)
    limit.take("a", 0.01)
    with pytest.raises(TooManyRequests) as refused:
        limit.take("a", 0.01)
    assert refusal(refused.value).headers["Retry-After"] == "100"
