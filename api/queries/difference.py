"""Differences: what changed in meaning between two positions."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from projections.difference import difference
from projections.engine.views import Views
from projections.moves import Difference

from .untold import may_tell


class DifferenceAnswer(msgspec.Struct, frozen=True):
    """Changes in meaning between two positions."""

    diff: Difference


def show_difference(before: Views, after: Views, *, counts_runs: bool = True) -> DifferenceAnswer:
    """Changes between the positions of two views. Raises BackwardDifference.

    With `counts_runs`, every run of the log is read, for the sections on runs and failures. The mean difference of a
    verdict is None while its benchmark can still judge.
    """
    found = difference(before, after, counts_runs=counts_runs)
    verdicts = tuple(
        each if may_tell(after, each.benchmark, each.evaluation) else replace(each, mean_delta=None)
        for each in found.verdicts
    )
    return DifferenceAnswer(diff=replace(found, verdicts=verdicts))
