"""Metrics for a Prometheus server: appends and their outcomes, the head, how far each projection is behind it."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agents.envs.unclosed_instances import UNCLOSED
from eventlog.group_commit import Counts
from projections.engine.builds import lags

from ..house import House
from .access import caller
from .as_of import HouseOf
from .problems import problem_of

router = APIRouter(tags=["health"], dependencies=[Depends(caller)])


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "The figures.", "content": {"text/plain": {}}},
        401: problem_of("The bearer token is missing or not accepted."),
        503: problem_of("The database does not answer, or the projection of tokens is parked."),
    },
)
def metrics(house: HouseOf) -> Response:
    """Counters of this process and gauges of the log, in the text format of Prometheus. Needs a token."""
    registry = CollectorRegistry()
    registry.register(_OfHouse(house))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _OfHouse(Collector):
    """Reads the figures when they are asked for; nothing is kept twice."""

    def __init__(self, house: House) -> None:
        self._house = house

    def collect(self) -> Iterator[Metric]:
        """Every figure once."""
        yield from _appends(self._house.store.group.counts)
        unclosed = "Instances of sites whose close failed in this process."
        yield CounterMetricFamily("flywheel_instances_unclosed", unclosed, value=UNCLOSED.number)
        yield from _log(self._house)


def _appends(counts: Counts) -> Iterator[Metric]:
    told = {
        "received": "Append requests taken in by this process: committed + repeated + rejected + waiting.",
        "committed": "Append requests that took positions in the log.",
        "repeated": "Append requests whose key was seen with the same content.",
        "rejected": "Append requests refused: conflicts, reused keys, too many waiting, failures.",
        "commits": "Transactions that append requests were merged into.",
        "events": "Events of committed append requests.",
    }
    for name, words in told.items():
        yield CounterMetricFamily(f"flywheel_append_{name}", words, value=getattr(counts, name))
    waiting = "Append requests without an outcome yet."
    yield GaugeMetricFamily("flywheel_append_waiting", waiting, value=counts.open_requests)


def _log(house: House) -> Iterator[Metric]:
    head = house.store.head()
    yield GaugeMetricFamily("flywheel_log_head", "The last committed position.", value=head)
    told = {
        "lag_events": "Events behind the head.",
        "lag_seconds": "Seconds since the first event that is not folded yet was recorded.",
        "parked": "1 where a projection stopped at an event it cannot fold.",
    }
    gauges = {
        name: GaugeMetricFamily(f"flywheel_projection_{name}", words, labels=["projection"])
        for name, words in told.items()
    }
    for lag in lags(house.engine):
        for name, value in {"lag_events": lag.events, "lag_seconds": lag.seconds, "parked": lag.is_parked}.items():
            gauges[name].add_metric([lag.projection], value)
    yield from gauges.values()
