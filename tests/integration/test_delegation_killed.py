"""A delegation loop whose process is killed goes on where it was and ends with the same events."""

from __future__ import annotations

import pytest

from agents.executors.delegation.replay import replay_loop
from agents.executors.delegation.sandbox import choose_sandbox
from benchmarks.delegation.kills import DyingStore, comparable, events_of, in_child, run_world
from benchmarks.delegation.world import World, config_without, means_of
from eventlog.blobs import PostgresBlobs
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from tests.conftest import Database

KILLED = 9


def test_a_killed_loop_ends_with_the_events_of_one_that_ran_through(empty_database: Database) -> None:
    box = choose_sandbox()
    if box.kind != "bubblewrap":
        pytest.skip("bubblewrap cannot run here, so tools are refused")
    world, config = World(3), config_without()
    means = means_of(world, box)

    def work(loop: str, at: int) -> None:
        engine = open_engine(empty_database.app_url)
        store = PostgresStore(engine)
        run_world(store if at == 0 else DyingStore(store, at), PostgresBlobs(engine), loop, world, means, config)

    engine = open_engine(empty_database.app_url)
    store, blobs = PostgresStore(engine), PostgresBlobs(engine)
    assert in_child(lambda: work("whole", 0)) == 0
    expected = comparable(events_of(store, "whole"), "whole")
    assert '"status": "complete"' in "".join(expected)
    for at in (7, 20):
        loop = f"killed-{at}"
        assert in_child(lambda at=at, loop=loop: work(loop, at)) == KILLED  # type: ignore[misc]
        assert in_child(lambda loop=loop: work(loop, 0)) == 0  # type: ignore[misc]
        assert comparable(events_of(store, loop), loop) == expected
        assert replay_loop(store, blobs, loop).divergence is None
    engine.dispose()
