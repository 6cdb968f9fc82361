"""Differences: what changed in meaning between two positions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import msgspec

from projections.difference import difference
from projections.engine.views import Views
from projections.moves import Difference

from .untold import find_hidden, find_playing, may_tell


class DifferenceAnswer(msgspec.Struct, frozen=True):
    """Changes in meaning between two positions."""

    diff: Difference


def show_difference(before: Views, after: Views, *, counts_runs: bool = True) -> DifferenceAnswer:
    """Changes between the positions of two views. Raises BackwardDifference.

    With `counts_runs`, every run of the log is read, for the sections on runs and failures. While a benchmark can
    judge, nothing that its sealed runs earned or cost is told, and of its verdicts only the decision.
    """
    found = difference(before, after, counts_runs=counts_runs, hidden_among=partial(find_hidden, after))
    verdicts = tuple(
        each if may_tell(after, each.benchmark, each.evaluation) else replace(each, mean_delta=None, pairs=None)
        for each in found.verdicts
    )
    costs = found.costs
    if costs is not None and find_playing(before, after):
        costs = replace(costs, spent=None)
    return DifferenceAnswer(diff=replace(found, verdicts=verdicts, costs=costs))
