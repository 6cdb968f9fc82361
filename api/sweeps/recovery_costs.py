"""Cost of recovery's model calls. It is part of no reward, but it counts against the budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agents.rewards import cost_of
from eventlog.events import Usage
from projections.advice import ADVICE, AdviceState
from projections.costs import COSTS, PRICES, PriceBook
from projections.engine.views import Views


def recovery_costs(views: Views, runs: Iterable[str], after: int = 0) -> Mapping[str, int | None]:
    """Micro-dollars of recovery's calls about these runs after a position, by run, at the prices then in force.

    None: unknown. Runs about which nothing was asked are left out.
    """
    books = _books(views)
    found: dict[str, int | None] = {}
    for run, advice in views.pick(ADVICE, [*runs]).items():
        if advice.since > after:
            then = [book for since, book in books if since < advice.since]
            found[run] = _cost(advice, then[-1]) if then else None
    return found


def known_sum(costs: Mapping[str, int | None]) -> int:
    """Sum of the known costs, in micro-dollars."""
    return sum(cost or 0 for cost in costs.values())


def _books(views: Views) -> Sequence[tuple[int, PriceBook]]:
    """Every price book with its position, in order."""
    changes = views.history(COSTS, PRICES)
    return [(each.since, each.state.book) for each in changes if each.state is not None and each.state.book is not None]


def _cost(advice: AdviceState, book: PriceBook) -> int | None:
    tokens = Usage(actions=0, wall_microseconds=0, input_tokens=advice.input_tokens, output_tokens=advice.output_tokens)
    return cost_of(tokens, book)
