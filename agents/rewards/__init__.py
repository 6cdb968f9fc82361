"""Rewards of runs and steps, and their shaping for learning. Pure, in integers, with separate terms."""

from __future__ import annotations

from .listing import ListingReward
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
from .tables import DEFAULT_OPS, OpsByStepKind, expected_ops
from .value import DEFAULT_LAMBDA, DEFAULT_PRICES, REWARD_VERSION, compute_reward, cost_of, penalty_of
