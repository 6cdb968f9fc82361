"""Reward on a simulated site: its oracle replaces the agent's claims. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from .listing import ListingReward
from .signals import Action, EpisodeState, Grading, GymResult, RewardSignal, RunResult
from .steps import DEFAULT_VALUE, unpaid_keys
from .tables import DEFAULT_OPS, OpsByStepKind, expected_ops

FULL: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class SyntheticEnvReward(ListingReward):
    """Drop-in replacement for its parent; it needs only what the caller's loop puts into `info` and `extras`.

    Step: `oracle_step` for mutations that the step was expected to cause. The same change (operation, target type,
    target id) is paid once in a run, and at most `most_paid` changes are paid, so that repetition earns nothing and a
    failed run never earns as much as a passed one. End: `oracle_score` and `oracle_passed_bonus`, or the parent's gate
    if there is no oracle. Amounts are micro-reward; `score_weight` is the reward of a score of 1.
    """

    expected_ops_by_step_kind: OpsByStepKind = field(default_factory=lambda: DEFAULT_OPS)
    oracle_step_value: int = DEFAULT_VALUE
    most_paid: int = 5
    score_weight: int = FULL
    pass_bonus: int = FULL

    def step(self, action: Action, gym_result: GymResult, state: EpisodeState) -> RewardSignal:
        """The parent's step reward, plus `oracle_step` if the delta holds an expected change that is not paid yet."""
        signal = super().step(action, gym_result, state)
        info = gym_result.info
        paid = state.extras.get("oracle_paid", frozenset())
        meant = expected_ops(self.expected_ops_by_step_kind, info.get("oracle_step_kind"))
        delta = info.get("oracle_mutations_delta")
        new = unpaid_keys(delta, meant, paid, max(0, self.most_paid - len(paid)))
        if not new:
            return signal
        return signal + RewardSignal({"oracle_step": self.oracle_step_value * len(new)}, frozenset(new))

    def episode(self, run_result: RunResult, state: EpisodeState, ground_truth: object = None) -> RewardSignal | None:
        """F1 and the pass bonus of `oracle_terminal`; None (no reward, not zero) if the oracle did not answer."""
        terminal = state.extras.get("oracle_terminal")
        if terminal is None:
            return super().episode(run_result, state, ground_truth)
        score = _score_of(terminal)
        if score is None:
            return None
        components = {"oracle_score": score * self.score_weight // FULL}
        if terminal["passed"]:
            components["oracle_passed_bonus"] = self.pass_bonus
        return RewardSignal(components)


def _score_of(terminal: Grading) -> int | None:
    """Score in millionths; None if the grading is an error or missing."""
    score, passed = terminal.get("score_micro"), terminal.get("passed")
    if terminal.get("error") is not None or not isinstance(passed, bool):
        return None
    if isinstance(score, bool) or not isinstance(score, int) or not 0 <= score <= FULL:
        return None
    return score


def returns(
    reward: ListingReward,
    steps: Iterable[tuple[Action, GymResult]],
    run_result: RunResult,
    terminal: Grading | None,
    ground_truth: object = None,
) -> RewardSignal | None:
    """Reward of a whole run by component: its steps in order, then its end; None if its end has no reward."""
    state, total = EpisodeState(), RewardSignal()
    for action, gym_result in steps:
        signal = reward.step(action, gym_result, state)
        state, total = state.after(action, gym_result, signal), total + signal
    ended = reward.episode(run_result, state if terminal is None else state.with_grade(terminal), ground_truth)
    return None if ended is None else total + ended
