"""What recovery's model cost, beside a plain reading of the whole log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.rewards import cost_of
from api.queries.costs import recovery_cost
from api.sweeps.recovery_costs import known_sum, recovery_costs
from eventlog.events import AnyEvent, ModelCalled, PriceBookSet, Usage
from eventlog.memory import MemoryStore
from eventlog.store import EventStore, Position
from projections.costs import PriceBook
from projections.engine.views import ReplayedViews
from tests.golden.test_golden_samples import sample
from tests.unit.test_agent_samples import add, views
from tests.unit.test_folds_samples import DAWN, stream_of

RUNS = ("r0", "r1", "r2", "r3")


def called(run: str = "r1", asked: int | None = 1_000, said: int | None = 500, role: str = "recovery") -> Any:
    return sample("ModelCalled", run=run, role=role, input_tokens=asked, output_tokens=said)


def prices(thousand_in: int, thousand_out: int) -> Any:
    book = {"per_thousand_input_tokens": thousand_in, "per_thousand_output_tokens": thousand_out}
    return sample("PriceBookSet", **book)


def a_log(*events: AnyEvent) -> MemoryStore:
    store = MemoryStore(lambda: DAWN)
    for event in events:
        add(store, stream_of(event), event)
    return store


def costs(*events: AnyEvent) -> Mapping[str, int | None]:
    return recovery_costs(views(a_log(*events)), RUNS)


def test_it_is_priced_by_the_book_in_force_when_it_was_asked() -> None:
    found = costs(called("r0"), prices(2_000, 6_000), called("r1"), prices(10, 10), called("r2", None), called("r3"))
    assert found == {"r0": None, "r1": 5_000, "r2": None, "r3": 15}
    assert known_sum(found) == 5_015


def test_what_it_cost_in_all_is_the_sum_of_the_calls_whose_cost_is_known() -> None:
    log = (called(), prices(2_000, 6_000), called("r1"), called("r1"), prices(10, 10), called("r2", None), called("r3"))
    told = recovery_cost(views(a_log(*log, called(role="policy"))))
    assert (told.spent, told.calls, told.unknown) == (10_015, 5, 2)


def test_what_a_policy_or_a_check_asked_is_no_part_of_it() -> None:
    assert costs(prices(1, 1), called(role="policy"), called(role="verifier"), called(role="decomposer")) == {}


def test_a_run_that_was_withdrawn_has_cost_what_it_cost() -> None:
    assert costs(prices(2_000, 0), called(), sample("RunsWithdrawn", runs=["r1"])) == {"r1": 2_000}


TOKENS = st.none() | st.integers(0, 5_000)
PRICES = st.integers(0, 9_000)
EVENTS = st.builds(
    called, st.sampled_from(RUNS[1:]), TOKENS, TOKENS, st.sampled_from(("recovery", "recovery", "policy"))
) | st.builds(prices, PRICES, PRICES)


@given(st.lists(EVENTS, max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_it_is_what_the_whole_log_says(events: list[AnyEvent], after: int, upto: int) -> None:
    store, end = a_log(*events), Position(min(upto, len(events)))
    assert recovery_costs(ReplayedViews(store, end), RUNS, after) == read_whole(store, end, after)


def read_whole(store: EventStore, upto: Position, after: int) -> dict[str, int | None]:
    """The last call of recovery about each run, at the last prices before it."""
    book: PriceBook | None = None
    found: dict[str, int | None] = {}
    for recorded in store.read(upto=upto):
        event = recorded.event
        if isinstance(event, PriceBookSet):
            book = PriceBook(**event.model_dump(exclude={"type"}))
        if isinstance(event, ModelCalled) and event.role == "recovery" and recorded.position > after:
            tokens = {"input_tokens": event.input_tokens, "output_tokens": event.output_tokens}
            used = Usage(actions=0, wall_microseconds=0, **tokens)
            found[event.run] = None if book is None else cost_of(used, book)
    return found
