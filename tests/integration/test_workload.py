"""The benchmarks' log is a log: it verifies, every event of it decodes, and its tables are what folding it gives."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Engine

from benchmarks.workload import fill
from eventlog.chain import GENESIS, verify_chain
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed
from projections import ALL
from projections.engine.compare import compare
from projections.engine.projector import Projector
from projections.engine.views import catch_up_views
from projections.failures import FAILURES
from projections.rewrites import REWRITES
from tests.conftest import Database
from tests.golden.test_golden_samples import sample


def test_a_workload_is_a_log_as_appends_would_have_made_it(empty_database: Database, empty_engine: Engine) -> None:
    fill(empty_database.app_url, "default", 3000)
    amount = fill(empty_database.app_url, "default", 6000)
    store = PostgresStore(empty_engine)
    assert store.head() == amount >= 6000
    assert sum(1 for _ in verify_chain(store.read_stored(), after=START, previous=GENESIS)) == amount
    kinds = Counter(item.event.type for item in store.read())
    assert kinds["StepTaken"] > kinds["RunStarted"] > kinds["RunMissing"] > 0
    assert min(kinds["RewriteProposed"], kinds["RewriteWon"], kinds["RewriteLost"]) > 0
    projector = Projector(empty_engine)
    projector.rebuild([fold.name for fold in ALL])
    views = catch_up_views(projector, empty_engine, store)
    assert all(row.is_identical for row in compare(views))
    assert any(state.is_failure for state in views.find(FAILURES).values())
    assert views.find(REWRITES) != {}
    (outcome,) = store.append([Append("run/more", (sample("RunFinished", run="more"),), "test", expect=0)])
    assert isinstance(outcome, Committed)
    assert outcome.first == amount + 1
