"""Rewards of runs and steps, and their shaping for learning. Pure, in integers, with separate terms."""

from __future__ import annotations

from .marketplace import MarketplaceListingReward
from .shaping import (
    SHAPING_VERSION,
    Conduct,
    Shaped,
    conduct_of,
    process_term,
    progress_term,
    shape_reward,
    shaped_return,
    steps_planned,
)
from .signals import Action, EpisodeState, Extras, Grading, GymResult, Info, RewardSignal, RunResult
from .steps import DEFAULT_VALUE, MutationKey, mutation_key, oracle_step_reward, unpaid_keys
from .synthetic import SyntheticEnvReward, returns
from .tables import DEFAULT_OPS, OPS_BY_SITE, expected_ops, step_kind
from .value import DEFAULT_LAMBDA, DEFAULT_PRICES, REWARD_VERSION, compute_reward, cost_of, penalty_of

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
    "EpisodeState",
    "Extras",
    "Grading",
    "GymResult",
    "Info",
    "MarketplaceListingReward",
    "MutationKey",
    "RewardSignal",
    "RunResult",
    "Shaped",
    "SyntheticEnvReward",
    "compute_reward",
    "conduct_of",
    "cost_of",
    "expected_ops",
    "mutation_key",
    "oracle_step_reward",
    "penalty_of",
    "process_term",
    "progress_term",
    "returns",
    "shape_reward",
    "shaped_return",
    "step_kind",
    "steps_planned",
    "unpaid_keys",
]
