"""Variance gate: find groups whose rewards differ enough for a policy gradient. Pure, in integers.

An advantage is a reward minus the mean of its group, so a group with equal rewards gives no training signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

from eventlog.events import RewardName

from ..engine.views import Views
from ..groups import GroupState, Sibling, find_groups

_MEANINGFUL_STD = 50_000
"""Minimum standard deviation of a usable group's rewards: 0.05, in millionths."""

_MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class GroupClass:
    """A group's usability for GRPO: of `n` graded siblings, `n_pass` passed.

    Standard deviations are of the population of known rewards, in millionths, rounded down; 0 for fewer than two.
    """

    n: int
    n_pass: int
    distinct_outcomes: int
    reward_std_micro: int
    shaped_std_micro: int
    grpo_usable: bool
    reason: str


def classify_group(state: GroupState, reward: RewardName) -> GroupClass:
    """Classify a group: usable if its siblings differ in outcome, or the named reward has a std of at least 0.05.

    Excludes siblings that are contaminated, missing, not graded yet, or played with a candidate or a withheld piece.
    """
    graded = [
        sibling for sibling in state.siblings if _counts(sibling) and sibling.run not in state.contaminated_siblings
    ]
    n, n_pass = len(graded), sum(sibling.passed is True for sibling in graded)
    outcomes = len({sibling.passed for sibling in graded})
    std = _std(graded, reward)
    is_mixed, is_spread = outcomes > 1, std >= _MEANINGFUL_STD
    return GroupClass(
        n=n,
        n_pass=n_pass,
        distinct_outcomes=outcomes,
        reward_std_micro=std,
        shaped_std_micro=_std(graded, "shaped"),
        grpo_usable=is_mixed or is_spread,
        reason=_reason(n, n_pass, reward, std, is_mixed=is_mixed, is_spread=is_spread),
    )


def classes(views: Views, sweep: str) -> dict[str, GroupClass]:
    """The class of each group of a sweep, by name, without groups of evaluations."""
    groups = find_groups(views, f"{sweep}__")
    return {name: classify_group(state, "shaped") for name, state in groups.items() if state.evaluation is None}


def _counts(sibling: Sibling) -> bool:
    """True if the sibling was played and graded with the artifact's unchanged memory."""
    return sibling.is_plain and not sibling.missing and sibling.passed is not None


def _std(siblings: Sequence[Sibling], reward: RewardName) -> int:
    """Population standard deviation of known rewards, rounded down; 0 for shaped returns of different formulas."""
    if reward == "shaped" and len({sibling.shaping for sibling in siblings if sibling.shaped is not None}) > 1:
        return 0
    values = [value for sibling in siblings if (value := getattr(sibling, reward)) is not None]
    n = len(values)
    return isqrt(n * sum(value * value for value in values) - sum(values) ** 2) // n if n else 0


def _reason(n: int, n_pass: int, reward: RewardName, std: int, *, is_mixed: bool, is_spread: bool) -> str:
    if is_mixed:
        return "mixed outcomes"
    if is_spread:
        return f"{reward} reward variance ({_decimal(std)})"
    if not n:
        return "degenerate: no graded sibling"
    alike = "pass" if n_pass else "fail"
    return f"degenerate: all {alike} ({n_pass}/{n}) and {reward} std {_decimal(std)} < {_decimal(_MEANINGFUL_STD)}"


def _decimal(micro: int) -> str:
    return f"{micro // _MICRO}.{micro % _MICRO:06d}".rstrip("0").rstrip(".")
