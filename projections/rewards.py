"""Rewards: the newest grade of each run. A run that was never graded has no row, which is not a reward of zero."""

from __future__ import annotations

from .projection import Fold, Row, State


class RewardState(State, frozen=True, kw_only=True):
    """A grade in micro-units; `cost` and `value` are None where the cost is unknown."""

    run: str = ""
    group: str = ""
    channel: str = ""
    version: str = ""
    score: int = 0
    passed: bool = False
    prices: int = 0
    cost: int | None = None
    value: int | None = None


def _fold(_state: RewardState, row: Row) -> RewardState:
    return RewardState(
        run=row.text("run"),
        group=row.text("group"),
        channel=row.text("channel"),
        version=row.text("version"),
        score=row.number("score"),
        passed=row.flag("passed"),
        prices=row.number("prices"),
        cost=row.maybe_number("cost"),
        value=row.maybe_number("value"),
    )


REWARDS = Fold(
    name="rewards",
    version=1,
    reads={
        "RewardGraded": ("run", "group", "channel", "version", "score", "passed", "prices", "cost", "value"),
    },
    initial=RewardState(),
    key=lambda row: row.text("run"),
    fold=_fold,
    stream_of=lambda key: f"run/{key}",
)
