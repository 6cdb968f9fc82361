"""Failures: failed runs, grouped by how they failed."""

from __future__ import annotations

import msgspec

from projections.contamination import contaminated_among
from projections.engine.views import Views
from projections.failures import FAILURES, FailureCluster, FailureState, clusters
from projections.runs import RUNS

from .paging import MOST_READ, filter_page
from .untold import find_hidden

MOST_FAILED = 1000
"""Failed runs in a page of clusters, unless a caller asks for another number."""


class FailureList(msgspec.Struct, frozen=True):
    """Clusters of a page of failed runs, largest first; `next` is the run to continue after, null on the last page."""

    clusters: tuple[FailureCluster, ...]
    next: str | None


def list_open_failures(views: Views, *, environment: str | None, after: str | None, limit: int) -> FailureList:
    """Clusters of at most `limit` failed runs outside benchmarks, on one environment or (None) on all."""

    def keep(page: dict[str, FailureState]) -> dict[str, FailureState]:
        found = {key: state for key, state in _only_failures(page).items() if not state.is_benchmark}
        return {key: state for key, state in found.items() if environment in {None, state.environment}}

    page, following = filter_page(views, FAILURES, keep, after=after, limit=limit, most_read=MOST_READ)
    return FailureList(_clusters(views, page), following)


def list_failures(views: Views, *, after: str | None = None, limit: int | None = None) -> FailureList:
    """Clusters of at most `limit` failed runs whose names sort after `after`; without a limit, of all of them."""
    if limit is not None:
        page, following = filter_page(views, FAILURES, _only_failures, after=after, limit=limit, most_read=MOST_READ)
        return FailureList(_clusters(views, page), following)
    found: dict[str, FailureState] = {}
    while True:
        page, after = filter_page(views, FAILURES, _only_failures, after=after, limit=MOST_FAILED)
        found |= page
        if after is None:
            return FailureList(_clusters(views, found), None)


def _only_failures(page: dict[str, FailureState]) -> dict[str, FailureState]:
    return {key: state for key, state in page.items() if state.is_failure}


def _clusters(views: Views, failed: dict[str, FailureState]) -> tuple[FailureCluster, ...]:
    """Clusters of those of these runs whose results may be told."""
    runs = views.pick(RUNS, failed.keys())
    hidden = find_hidden(views, runs.values())
    told = [state for key, state in failed.items() if key not in hidden]
    return clusters(told, contaminated_among(views, runs.values()))
