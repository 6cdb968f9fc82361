"""Failures: failed runs, grouped by how they failed."""

from __future__ import annotations

import msgspec

from projections.contamination import contaminated_runs
from projections.engine.views import Views
from projections.failures import FAILURES, FailureCluster, clusters


class FailureList(msgspec.Struct, frozen=True):
    """Clusters of failed runs, largest first."""

    clusters: tuple[FailureCluster, ...]


def list_failures(views: Views) -> FailureList:
    """Every cluster of failed runs."""
    return FailureList(clusters=clusters(views.find(FAILURES).values(), contaminated_runs(views)))
