"""The budget: what is left in six dimensions, and what may be reserved. Pure.

A reservation counts as spent until it is settled, so that concurrent workers cannot overdraw. Nothing is unlimited: a
limit of 0 allows nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from eventlog.events import LoopLimits
from projections.delegation.budgets import Amounts, LoopBudget

MICRO: Final = 1_000_000
LEAST_FRACTION: Final = 50_000
MOST_FRACTION: Final = 950_000
CHILDREN_SHARE: Final = 800_000
"""All sub-managers of one iteration together get at most this share of what is left."""


@dataclass(frozen=True, slots=True)
class OverBudget:
    """A reservation or an iteration that the budget refuses, and by which limit."""

    limit: str
    used: int
    most: int

    @property
    def why(self) -> str:
        """The reason as recorded, such as `max_loops reached`."""
        return f"{self.limit} {'exceeded' if self.limit == 'max_wall_time' else 'reached'}"


def limits_of(limits: LoopLimits) -> Amounts:
    """The limits as amounts. Wall time is in microseconds."""
    return Amounts(
        loops=limits.max_loops,
        workers=limits.max_total_workers,
        tokens=limits.max_total_tokens,
        tool_calls=limits.max_tool_calls,
        wall=limits.max_wall_time * MICRO,
    )


NAMES: Final = {
    "loops": "max_loops",
    "workers": "max_total_workers",
    "wall": "max_wall_time",
    "tokens": "max_total_tokens",
    "tool_calls": "max_tool_calls",
}
"""The limit of each dimension that is used up, in the order in which they are judged."""


def can_continue(budget: LoopBudget, limits: LoopLimits) -> OverBudget | None:
    """The first limit that is reached, or None if another iteration may begin."""
    used, most = budget.spent_and_reserved, limits_of(limits)
    for dimension, name in NAMES.items():
        if getattr(used, dimension) >= getattr(most, dimension):
            return OverBudget(name, getattr(used, dimension), getattr(most, dimension))
    return None


def over_limits(budget: LoopBudget, limits: LoopLimits, wanted: Amounts) -> OverBudget | None:
    """The first limit that a reservation of `wanted` would exceed, or None if it fits."""
    used, most = budget.spent_and_reserved, limits_of(limits)
    for dimension, name in NAMES.items():
        amount = getattr(wanted, dimension)
        if amount and getattr(used, dimension) + amount > getattr(most, dimension):
            return OverBudget(name, getattr(used, dimension) + amount, getattr(most, dimension))
    return None


def wall_spent(budget: LoopBudget, limits: LoopLimits) -> OverBudget | None:
    """The limit on wall time if it is reached, else None."""
    used, most = budget.spent_and_reserved.wall, limits.max_wall_time * MICRO
    return OverBudget("max_wall_time", used, most) if used >= most else None


def budget_fraction_remaining(budget: LoopBudget, limits: LoopLimits) -> int:
    """The least fraction left of any dimension, in millionths, rounded down."""
    used, most = budget.spent_and_reserved, limits_of(limits)
    return min(_fraction(getattr(used, each), getattr(most, each)) for each in NAMES)


def remaining_amounts(budget: LoopBudget, limits: LoopLimits) -> Amounts:
    """Amounts left in each dimension, never below 0."""
    used, most = budget.spent_and_reserved, limits_of(limits)
    return Amounts(**{each: max(0, getattr(most, each) - getattr(used, each)) for each in NAMES})


def allocate_child(budget: LoopBudget, limits: LoopLimits, fraction: int) -> LoopLimits | None:
    """The limits of a sub-manager: a fraction of what is left, rounded down; None if that is nothing in one dimension.

    Its wall time is what is left to the parent, because it runs meanwhile.
    """
    share, left = max(LEAST_FRACTION, min(MOST_FRACTION, fraction)), remaining_amounts(budget, limits)
    part = replace(
        left,
        loops=left.loops * share // MICRO,
        workers=left.workers * share // MICRO,
        tokens=left.tokens * share // MICRO,
        tool_calls=left.tool_calls * share // MICRO,
    )
    if min(part.loops, part.workers, part.tokens, part.tool_calls, part.wall // MICRO) < 1:
        return None
    return limits.model_copy(
        update={
            "max_loops": part.loops,
            "max_total_workers": part.workers,
            "max_total_tokens": part.tokens,
            "max_tool_calls": part.tool_calls,
            "max_wall_time": part.wall // MICRO,
        }
    )


def child_fraction(limits: LoopLimits, children: int, asked: int | None = None) -> int:
    """The fraction for each of so many sub-managers of one iteration; `asked` is what the manager would give it."""
    return min(limits.child_fraction if asked is None else asked, CHILDREN_SHARE // max(1, children))


@dataclass(frozen=True, slots=True)
class TreeCounts:
    """The sub-managers of a whole run: how many were ever opened, how many are open."""

    total: int
    concurrent: int


def may_promote(tree: TreeCounts, depth: int, limits: LoopLimits) -> str | None:
    """Why a worker at this depth may not become a sub-manager; None if it may."""
    if depth + 1 > limits.max_depth:
        return "max_depth reached"
    if tree.total >= limits.max_total_submanagers_per_run:
        return "max_total_submanagers_per_run reached"
    return "max_concurrent_submanagers reached" if tree.concurrent >= limits.max_concurrent_submanagers else None


def estimate_tokens(chars: int, most_output: int) -> int:
    """The tokens to reserve for a call: a prompt of so many characters, and the longest answer."""
    return math.ceil(chars / 3) + most_output


def _fraction(used: int, most: int) -> int:
    return max(0, (most - used) * MICRO // most) if most else 0
