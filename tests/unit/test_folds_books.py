from __future__ import annotations

from eventlog.events import BenchmarkFrozen, DatasetFrozen
from projections.access import ACCESS
from projections.benchmarks import BENCHMARKS, benchmark_instances
from projections.costs import COSTS, PRICES, SPENT
from projections.frozen_datasets import CHECKPOINTS
from tests.golden.test_golden_samples import sample

from .test_folds_samples import graded, only, states


def test_known_costs_are_summed_and_unknown_ones_are_counted_never_summed_as_zero() -> None:
    state = states(COSTS, graded(cost=100), graded(cost=None, value=None), graded(cost=0), graded(cost=7))[SPENT]
    assert (state.spent, state.runs, state.unknown) == (107, 4, 1)


def test_with_only_unknown_costs_every_run_is_unknown() -> None:
    state = states(COSTS, graded(cost=None, value=None))[SPENT]
    assert (state.spent, state.runs, state.unknown) == (0, 1, 1)


def test_the_price_book_in_force_is_the_last_one_set_and_spending_is_no_part_of_it() -> None:
    found = states(COSTS, sample("PriceBookSet", version=1), graded(cost=3), sample("PriceBookSet", version=2))
    book = found[PRICES].book
    assert book is not None
    assert book.version == 2
    assert (found[PRICES].spent, found[SPENT].spent, found[SPENT].book) == (0, 3, None)


def test_a_token_is_accepted_until_it_is_revoked() -> None:
    issued, revoked = sample("TokenIssued", token="t"), sample("TokenRevoked", token="t")
    assert not only(ACCESS, issued).is_revoked
    assert only(ACCESS, issued, revoked).is_revoked
    assert only(ACCESS, issued, revoked).digest == only(ACCESS, issued).digest


def test_a_revocation_reaches_no_other_token_and_a_token_may_be_issued_again() -> None:
    events = [sample("TokenIssued", token="a"), sample("TokenIssued", token="b"), sample("TokenRevoked", token="a")]
    assert {key: state.is_revoked for key, state in states(ACCESS, *events).items()} == {"a": True, "b": False}
    assert not states(ACCESS, *events, sample("TokenIssued", token="a"))["a"].is_revoked


def test_a_token_that_was_revoked_before_it_was_issued_has_no_digest_to_match() -> None:
    state = only(ACCESS, sample("TokenRevoked", token="t"))
    assert (state.is_revoked, state.digest) == (True, "")


def test_a_benchmark_comes_back_as_the_event_that_froze_it() -> None:
    event = sample("BenchmarkFrozen")
    assert only(BENCHMARKS, event).frozen_event() == event


def test_the_instances_of_benchmarks_are_environment_oracle_task_and_seed() -> None:
    event = sample("BenchmarkFrozen")
    assert isinstance(event, BenchmarkFrozen)
    oracle = {template.template_id: template.oracle_task_id for template in event.templates}
    found = benchmark_instances([only(BENCHMARKS, event)])
    assert found == {(event.environment, oracle[task.template], task.env_seed) for task in event.tasks}
    assert len(found) == len({(oracle[task.template], task.env_seed) for task in event.tasks})


def test_a_dataset_keeps_its_query_its_position_and_what_was_refused() -> None:
    refused = [{"reason": "benchmark", "runs": 3}, {"reason": "missing", "runs": 1}]
    event = sample("DatasetFrozen", refused=refused)
    assert isinstance(event, DatasetFrozen)
    (key, state), *others = states(CHECKPOINTS, event).items()
    assert not others
    assert key == f"dataset/{event.dataset}"
    assert (state.parse_query(), state.upto, state.rows) == (event.query, event.upto, event.rows)
    assert (state.refused, state.frozen_since) == ({"benchmark": 3, "missing": 1}, 1)


def test_a_run_that_is_graded_again_is_paid_for_once() -> None:
    state = states(COSTS, graded(cost=100), graded(cost=100, again=True), graded(cost=None, again=True))[SPENT]
    assert (state.spent, state.runs, state.unknown) == (100, 1, 0)
