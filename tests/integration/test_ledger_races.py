"""Sixteen processes open evaluations on one benchmark at once: as many as there is alpha for, each its own number."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier

import pytest
from sqlalchemy import Engine

from eventlog.events import Rules
from eventlog.postgres import PostgresStore
from gate.errors import BenchmarkExhausted
from gate.promote import freeze_into, open_evaluation
from projections.alpha import ALPHA
from projections.engine.views import ReplayedViews
from tests.conftest import Database
from tests.racing import raced
from tests.unit.test_gate_samples import artifact, benchmark

RACERS = 16
FROZEN = benchmark(sealed=2)


def racer(store: PostgresStore, together: Barrier, number: int) -> str | None:
    """Open one evaluation once everybody is ready; its name, or None where no alpha was left."""
    evaluation = f"eval-of-{number}"
    together.wait()
    try:
        open_evaluation(store, evaluation, FROZEN, artifact(0), artifact(number + 1), Rules(), "race")
    except BenchmarkExhausted:
        return None
    return evaluation


@pytest.mark.timeout(600)
def test_as_many_evaluations_open_as_the_benchmark_was_frozen_for_and_each_spends_once(
    empty_database: Database, empty_engine: Engine
) -> None:
    store = PostgresStore(empty_engine)
    freeze_into(store, FROZEN, "race")

    found = raced(racer, empty_database.app_url, RACERS)

    opened = {evaluation for evaluation in found if evaluation is not None}
    ledger = ReplayedViews(store, store.head()).find(ALPHA)[FROZEN.benchmark]
    assert len(opened) == FROZEN.challengers == 10
    assert {spending.evaluation for spending in ledger.spendings} == opened
    assert [spending.challenge for spending in ledger.spendings] == list(range(1, FROZEN.challengers + 1))
    assert {spending.alpha for spending in ledger.spendings} == {FROZEN.alpha // FROZEN.challengers}
    assert (ledger.spent_total, ledger.is_exhausted) == (FROZEN.alpha, True)
    with pytest.raises(BenchmarkExhausted):
        open_evaluation(store, "one-more", FROZEN, artifact(0), artifact(99), Rules(), "race")
