"""Differences: what changed in meaning between two positions."""

from __future__ import annotations

import msgspec

from projections.difference import difference
from projections.engine.views import Views
from projections.moves import Difference


class DifferenceAnswer(msgspec.Struct, frozen=True):
    """What changed in meaning between two positions."""

    diff: Difference


def show_difference(before: Views, after: Views, *, counts_runs: bool = True) -> DifferenceAnswer:
    """What changed between the positions of two views. Raises BackwardDifference.

    With `counts_runs`, every run of the log is read, for the sections on runs and failures.
    """
    return DifferenceAnswer(diff=difference(before, after, counts_runs=counts_runs))
