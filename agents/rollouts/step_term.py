"""The step term of a run's reward: what its steps earned by the site's record, whatever the agent claims. Pure."""

from __future__ import annotations

from typing import Final

from ..executors.executor import Execution
from ..rewards import EpisodeState, GymResult, Info, RewardSignal, SyntheticEnvReward
from ..suites.tasks import Operations

COMPONENT: Final = "oracle_step"


def step_term(execution: Execution, operations: Operations) -> int | None:
    """Micro-reward of the changes that the steps were expected to record; None if no step was checked by the record.

    Each change is paid once, and only so many of them, as SyntheticEnvReward says.
    """
    deltas = {each.index: each.checked.delta for each in execution.verified if each.checked.delta is not None}
    if not deltas:
        return None
    reward = SyntheticEnvReward(expected_ops_by_step_kind=operations.table)
    state, total = EpisodeState(), RewardSignal()
    for taken in execution.taken:
        delta, step = deltas.get(taken.index), taken.step
        if delta is None:
            continue
        info = Info(oracle_mutations_delta=delta, oracle_step_kind=operations.kind_of(step.type, step.label) or "")
        signal = reward.step(step.intent, GymResult(info), state)
        state, total = state.after(step.intent, GymResult(info), signal), total + signal
    return total.components.get(COMPONENT, 0)
