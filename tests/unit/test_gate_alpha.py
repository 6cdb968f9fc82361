"""Alpha over challengers: equal shares, counted, never more of them than were planned."""

from __future__ import annotations

import pytest

from gate.alpha import Alpha, alpha_of, next_alpha
from gate.errors import BenchmarkExhausted, NotOpened
from projections.alpha import AlphaState, Spending


def ledger(challengers: int, opened: int) -> AlphaState:
    share = 50_000 // challengers
    return AlphaState(
        benchmark="b-1",
        alpha=50_000,
        challengers=challengers,
        spendings=tuple(
            Spending(evaluation=f"eval-{number}", challenge=number, alpha=share, since=10 * number)
            for number in range(1, opened + 1)
        ),
    )


def test_each_challenger_may_spend_an_equal_share_rounded_down() -> None:
    assert next_alpha(ledger(3, 0)) == Alpha(1, 16_666, 16_666)
    assert next_alpha(ledger(3, 2)) == Alpha(3, 16_666, 49_998)


def test_no_more_challengers_than_planned_are_judged() -> None:
    with pytest.raises(BenchmarkExhausted, match="judged 3 challengers"):
        next_alpha(ledger(3, 3))


def test_what_an_evaluation_spent_stands_with_all_that_was_spent_until_then() -> None:
    assert alpha_of(ledger(10, 4), "eval-2") == Alpha(2, 5_000, 10_000)


def test_an_evaluation_that_was_never_opened_spends_nothing() -> None:
    with pytest.raises(NotOpened, match="eval-9 was never opened"):
        alpha_of(ledger(10, 4), "eval-9")
