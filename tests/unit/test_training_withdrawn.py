"""Runs that were withdrawn are not trained on."""

from __future__ import annotations

import pytest

from api.datasets import freeze as datasets
from api.errors import DatasetWithdrawn
from api.queries.datasets import find_dataset
from api.training.stages import refuse_withdrawn
from eventlog.events import GrpoQuery, RunsWithdrawn
from eventlog.store import Append
from projections.frozen_datasets import DatasetState
from tests.unit.test_policy_samples import MICRO, PolicyLog, siblings


def freeze(log: PolicyLog) -> DatasetState:
    digest = datasets.freeze_dataset(log.store, log.build(GrpoQuery(reward="score")), "test")
    return find_dataset(log.views(), digest)


def withdraw(log: PolicyLog, *runs: str) -> None:
    log.store.append([Append("withdrawals", (RunsWithdrawn(runs=runs, reason="bad grader"),), "test")])


def test_a_dataset_that_holds_a_run_withdrawn_since_is_refused_until_it_is_frozen_again() -> None:
    log = PolicyLog(*siblings(MICRO, 0, 0))
    before = freeze(log)
    refuse_withdrawn(log.store, log.views, before)
    withdraw(log, "r2")
    with pytest.raises(DatasetWithdrawn, match="withdrawn after it was frozen") as refused:
        refuse_withdrawn(log.store, log.views, before)
    assert refused.value.facts == {"actual": before.dataset, "upto": before.upto}
    after = freeze(log)
    assert (after.rows, before.rows) == (2, 3)
    refuse_withdrawn(log.store, log.views, after)


def test_runs_that_it_does_not_hold_are_no_reason_to_refuse() -> None:
    log = PolicyLog(*siblings(MICRO, 0))
    frozen = freeze(log)
    log.play(*(run for run in siblings(0, 0, 0, group="later")[2:]))
    withdraw(log, "r2")
    refuse_withdrawn(log.store, log.views, frozen)
