"""When a worker counts as lost: only by heartbeats that the database could have received, by the reader's own clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agents.rollouts.dispatching.heartbeats import Heartbeats, HeartbeatWatch, watch_on

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AFTER_S, GAP_S = 4.0, 2.0


def lost_after(*readings: tuple[float, str, int]) -> list[int]:
    """Workers that are lost after readings: each the reader's time, the server's run, and the hour of a heartbeat."""
    watch = HeartbeatWatch()
    for at_s, server, hour in readings:
        read = Heartbeats(server, {7: NOON, 8: NOON + timedelta(hours=hour)})
        watch = watch_on(watch, read, at_s, GAP_S)
    return sorted(watch.lost_workers(AFTER_S))


def test_a_worker_whose_heartbeat_stays_the_same_is_lost_whatever_the_servers_clock_says() -> None:
    assert lost_after((1, "a", 0), (2, "a", 3), (4, "a", -4)) == []
    assert lost_after((1, "a", 0), (3, "a", 3), (5, "a", -4)) == [7]
    assert lost_after((1, "a", 9), (3, "a", 9), (5, "a", 9)) == [7, 8]


@pytest.mark.parametrize("missed", [(6, "a", 0), (5, "b", 0)], ids=["an outage", "a crash"])
def test_heartbeats_that_the_database_may_have_missed_make_no_worker_lost(missed: tuple[float, str, int]) -> None:
    at_s, server, _ = missed
    before = [(1.0, "a", 0), (3.0, "a", 0), missed]
    assert lost_after(*before) == []
    assert lost_after(*before, (at_s + 2, server, 0)) == []
    assert lost_after(*before, (at_s + 2, server, 0), (at_s + 4, server, 0)) == [7, 8]
