"""One prefix of a log gives one dataset: whatever came after it, whoever reads it, and in whatever batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from api.datasets import freeze
from api.house import House
from eventlog.events import DpoQuery, GrpoQuery, Query, RewardGraded, RunsWithdrawn, SftQuery
from eventlog.store import Append
from projections.engine.views import ReplayedViews, Views
from tests.unit.test_policy_samples import MICRO, play, siblings

QUERIES: tuple[Query, ...] = (
    SftQuery(runs="policy"),
    SftQuery(runs="policy", best_of_group=True),
    DpoQuery(reward="value"),
    GrpoQuery(reward="value"),
)


def goes_on(house: House) -> None:
    """Facts about the runs that rows were made of: another sibling, another grade of one run, one withdrawn."""
    play(house.store, house.blobs, replace(siblings(MICRO)[0], run="later", index=9, value=2 * MICRO))
    (grade,) = (
        event for recorded in house.store.read(stream="run/g0-r0") if isinstance(event := recorded.event, RewardGraded)
    )
    lower = grade.model_copy(update={"version": "2", "value": -5, "again": True})
    withdrawn = RunsWithdrawn(runs=("g1-r0",), reason="test")
    house.store.append([Append("run/g0-r0", (lower,), "test"), Append("withdrawals", (withdrawn,), "test")])


def readings(house: House, views: Views) -> Iterator[Views]:
    """The views that were there before, those of their position now, and the log folded on the spot."""
    yield views
    yield house.views(views.upto)
    yield ReplayedViews(house.store, views.upto)


@pytest.mark.parametrize("query", QUERIES, ids=["sft", "best", "dpo", "grpo"])
def test_a_position_gives_the_same_dataset_whatever_came_later(empty_house: House, query: Query) -> None:
    house = empty_house
    for group in ("g0", "g1"):
        for run in siblings(MICRO, 0, MICRO // 2, group=group):
            play(house.store, house.blobs, replace(run, run=f"{group}-{run.run}"))
    views = house.views()
    first = freeze.make_rows(house.store, house.blobs, views, query)
    goes_on(house)
    assert freeze.make_rows(house.store, house.blobs, house.views(), query).digest != first.digest
    house.projector.rebuild(["groups", "rewards", "runs", "taint"])
    for reading in readings(house, views):
        for size in (1, 64):
            assert freeze.make_rows(house.store, house.blobs, reading, query, groups_at_once=size) == first
