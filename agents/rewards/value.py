"""Reward of a run: `R = score - lambda * cost`, in integers, with separate terms."""

from __future__ import annotations

from eventlog.events import PriceBookSet, RewardGraded, RewardTerms, Usage
from projections.costs import PriceBook

from .shaping import Conduct, shape_reward

DEFAULT_LAMBDA = 100_000
"""Micro-score per dollar: a dollar is worth a tenth of a score (the seeds' 0.1)."""

REWARD_VERSION = "oracle-1"

DEFAULT_PRICES = PriceBookSet(
    version=1,
    per_action=200,
    per_second=30,
    per_thousand_input_tokens=3_000,
    per_thousand_output_tokens=15_000,
)
"""A fiftieth of a cent per action, about eleven cents per machine hour, and 3 and 15 dollars per million tokens."""


def cost_of(usage: Usage, book: PriceBook) -> int | None:
    """Cost of a run in micro-dollars, rounded down; None if any part of its usage is unknown."""
    actions, wall, tokens_in, tokens_out = (
        usage.actions,
        usage.wall_microseconds,
        usage.input_tokens,
        usage.output_tokens,
    )
    if actions is None or wall is None or tokens_in is None or tokens_out is None:
        return None
    return (
        actions * book.per_action
        + wall * book.per_second // 1_000_000
        + tokens_in * book.per_thousand_input_tokens // 1_000
        + tokens_out * book.per_thousand_output_tokens // 1_000
    )


def penalty_of(cost: int | None, lambda_per_dollar: int) -> int | None:
    """Penalty in micro-score for a cost in micro-dollars, rounded down; None if the cost is unknown."""
    return None if cost is None else cost * lambda_per_dollar // 1_000_000


def compute_reward(
    run: str,
    group: str,
    score: int,
    reasons: tuple[str, ...],
    usage: Usage,
    book: PriceBook,
    *,
    passed: bool,
    conduct: Conduct | None,
    lambda_per_dollar: int = DEFAULT_LAMBDA,
    steps: int | None = None,
) -> RewardGraded:
    """Reward event of an oracle's score (micro): the score minus its cost, and the return shaped by the run's conduct.

    Without a conduct there is no shaped return. `steps` is the step term, which is recorded and not added.
    """
    cost = cost_of(usage, book)
    penalty = penalty_of(cost, lambda_per_dollar)
    reward = RewardGraded(
        run=run,
        group=group,
        channel="oracle",
        version=REWARD_VERSION,
        score=score,
        passed=passed,
        reasons=reasons,
        terms=RewardTerms(score=score, lambda_per_dollar=lambda_per_dollar, penalty=penalty, steps=steps),
        prices=book.version,
        cost=cost,
        value=None if penalty is None else score - penalty,
    )
    return shape_reward(reward, conduct)
