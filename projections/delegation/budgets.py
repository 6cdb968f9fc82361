"""The budget of each delegation loop: what was spent and what is reserved."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from ..engine.projection import EventRow, Fold, FoldState


class Amounts(Struct, frozen=True, kw_only=True):
    """Amounts in each dimension of a budget. `wall` is in microseconds."""

    loops: int = 0
    workers: int = 0
    tokens: int = 0
    tool_calls: int = 0
    wall: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """The sum in each dimension."""
        return Amounts(
            loops=self.loops + other.loops,
            workers=self.workers + other.workers,
            tokens=self.tokens + other.tokens,
            tool_calls=self.tool_calls + other.tool_calls,
            wall=self.wall + other.wall,
        )


class LoopBudget(FoldState, frozen=True, kw_only=True):
    """The budget of a loop. `pending` holds each reservation that is not settled, by name."""

    spent: Amounts = Amounts()
    pending: dict[str, Amounts] = field(default_factory=dict)

    @property
    def spent_and_reserved(self) -> Amounts:
        """Amounts spent and reserved, together."""
        total = self.spent
        for each in self.pending.values():
            total = total.plus(each)
        return total


def loop_stream(loop: str) -> str:
    """The stream of a delegation loop."""
    return f"loop/{loop}"


def reserve_amounts(budget: LoopBudget, name: str, amounts: Amounts) -> LoopBudget:
    """The budget after a reservation. One of the same name is replaced."""
    return replace(budget, pending={**budget.pending, name: amounts})


def settle_amounts(budget: LoopBudget, name: str, actual: Amounts) -> LoopBudget:
    """The budget after a settlement: the reservation is released and the actual amounts are booked.

    A settlement without its reservation books them all the same: what was spent is never lost.
    """
    pending = {key: each for key, each in budget.pending.items() if key != name}
    return replace(budget, spent=budget.spent.plus(actual), pending=pending)


def amounts_in(row: EventRow) -> Amounts:
    """The amounts that an event names."""
    return Amounts(
        loops=row.number("amounts.loops"),
        workers=row.number("amounts.workers"),
        tokens=row.number("amounts.tokens"),
        tool_calls=row.number("amounts.tool_calls"),
        wall=row.number("amounts.wall"),
    )


def _fold(state: LoopBudget, row: EventRow) -> LoopBudget:
    change = reserve_amounts if row.type == "BudgetReserved" else settle_amounts
    return change(state, row.text("reservation"), amounts_in(row))


_AMOUNTS = tuple(f"amounts.{each}" for each in ("loops", "workers", "tokens", "tool_calls", "wall"))

LOOP_BUDGETS = Fold(
    name="loop_budgets",
    version=1,
    reads={
        "BudgetReserved": ("loop", "reservation", *_AMOUNTS),
        "BudgetSettled": ("loop", "reservation", *_AMOUNTS),
    },
    initial=LoopBudget(),
    key=lambda row: row.text("loop"),
    fold=_fold,
    stream_of=loop_stream,
)
