"""What recovery's model cost. It is in no reward: a run does not pay for being looked at, but a budget does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.rewards import cost_of
from eventlog.events import ModelCalled, PriceBookSet, Usage
from eventlog.store import EventStore, Position
from projections.costs import PriceBook


def recovery_costs(store: EventStore, upto: Position, after: int = 0) -> Mapping[str, int | None]:
    """Micro-dollars of what recovery asked, by run, at the prices in force then; None where they are not known.

    Only of what was asked after a position.
    """
    books = _books(store, upto)
    found: dict[str, int | None] = {}
    for recorded in store.read(after=Position(after), upto=upto, types=["ModelCalled"]):
        event = recorded.event
        if isinstance(event, ModelCalled) and event.role == "recovery":
            then = [book for since, book in books if since < recorded.position]
            found[event.run] = _cost(event, then[-1]) if then else None
    return found


def known_sum(costs: Mapping[str, int | None], prefix: str = "") -> int:
    """The sum of those that are known, of runs whose name begins so; in micro-dollars."""
    return sum(cost or 0 for run, cost in costs.items() if run.startswith(prefix))


def _books(store: EventStore, upto: Position) -> Sequence[tuple[int, PriceBook]]:
    """Every price book with the position it was set at, in order."""
    return [
        (recorded.position, PriceBook(**recorded.event.model_dump(exclude={"type"})))
        for recorded in store.read(upto=upto, types=["PriceBookSet"])
        if isinstance(recorded.event, PriceBookSet)
    ]


def _cost(call: ModelCalled, book: PriceBook) -> int | None:
    tokens = Usage(actions=0, wall_microseconds=0, input_tokens=call.input_tokens, output_tokens=call.output_tokens)
    return cost_of(tokens, book)
