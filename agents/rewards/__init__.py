"""Rewards: what a run earned, what its steps earned, and what shapes learning. Pure, in integers, terms kept apart."""

from __future__ import annotations

from .marketplace import MarketplaceListingReward
from .shaping import (
    SHAPING_VERSION,
    Conduct,
    Shaped,
    conduct_of,
    process_of,
    progress_of,
    shape_reward,
    shaped_return,
    steps_planned,
)
from .signals import Action, Extras, Grading, GymResult, Info, RewardSignal, RunResult, RunState
from .steps import DEFAULT_VALUE, MutationKey, key_of, oracle_step_reward, unpaid
from .synthetic import SyntheticEnvReward, returns
from .tables import DEFAULT_OPS, OPS_BY_SITE, expected_ops, kind_of
from .value import DEFAULT_LAMBDA, DEFAULT_PRICES, REWARD_VERSION, cost_of, grade_run, penalty_of

__all__ = [
    "DEFAULT_LAMBDA",
    "DEFAULT_OPS",
    "DEFAULT_PRICES",
    "DEFAULT_VALUE",
    "OPS_BY_SITE",
    "REWARD_VERSION",
    "SHAPING_VERSION",
    "Action",
    "Conduct",
    "Extras",
    "Grading",
    "GymResult",
    "Info",
    "MarketplaceListingReward",
    "MutationKey",
    "RewardSignal",
    "RunResult",
    "RunState",
    "Shaped",
    "SyntheticEnvReward",
    "conduct_of",
    "cost_of",
    "expected_ops",
    "grade_run",
    "key_of",
    "kind_of",
    "oracle_step_reward",
    "penalty_of",
    "process_of",
    "progress_of",
    "returns",
    "shape_reward",
    "shaped_return",
    "steps_planned",
    "unpaid",
]
