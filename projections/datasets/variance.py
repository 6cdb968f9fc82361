"""Variance gate: which groups have a spread of rewards that a policy can learn from. Pure, in integers.

An advantage is a reward less the mean of its group, so that a group whose runs all earned the same teaches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

from eventlog.events import RewardName

from ..engine.views import Views
from ..groups import GROUPS, GroupState, Sibling

_MEANINGFUL_STD = 50_000
"""A spread of 0.05, in millionths: from here on the rewards of a group differ enough."""

_MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class GroupClass:
    """What a group is worth to GRPO: of `n` graded siblings `n_pass` passed.

    Spreads are population standard deviations in millionths, rounded down, of the rewards that are known; 0 of fewer
    than two.
    """

    n: int
    n_pass: int
    distinct_outcomes: int
    reward_std_micro: int
    shaped_std_micro: int
    grpo_usable: bool
    reason: str


def classify_group(state: GroupState, reward: RewardName) -> GroupClass:
    """Whether a group's siblings differ in outcome, or by a spread of 0.05 or more in the reward that is named.

    Treated and withheld siblings, contaminated and missing ones are left out, and so are those not graded yet.
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
    """Each group of a sweep, by name, and what it is worth to GRPO; not those of an evaluation."""
    groups = views.find(GROUPS, f"{sweep}__")
    return {name: classify_group(state, "shaped") for name, state in groups.items() if state.evaluation is None}


def _counts(sibling: Sibling) -> bool:
    """A sibling of the group proper: played, graded, and on its own memory alone."""
    return sibling.is_plain and not sibling.missing and sibling.passed is not None


def _std(siblings: Sequence[Sibling], reward: RewardName) -> int:
    """The population standard deviation of the known ones, rounded down; shaped returns compare under one formula."""
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
