"""Contaminated runs: runs whose start state differs from that of the runs they are compared with.

Siblings of a group are compared with one another, without withdrawn runs. In an evaluation, where both arms play the
same instances, the repeats of both arms are compared, including withdrawn ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from .engine.views import Views
from .groups import contaminated_starts, find_groups, pick_groups
from .runs import RUNS, RunState


def contaminated_runs(views: Views, prefix: str = "") -> frozenset[str]:
    """Every contaminated run in groups and arms; with a prefix, only in groups and runs whose names start with it."""
    groups = (state for state in find_groups(views, prefix).values() if state.evaluation is None)
    in_groups = frozenset(run for state in groups for run in state.contaminated_siblings)
    return in_groups | contaminated_in_arms(views.find(RUNS, prefix).values())


def contaminated_among(views: Views, runs: Iterable[RunState]) -> frozenset[str]:
    """The contaminated ones of some runs. Reads their groups and evaluations alone."""
    asked = tuple(runs)
    groups = pick_groups(views, {run.group for run in asked if run.evaluation is None}).values()
    evaluations = sorted({run.evaluation for run in asked if run.evaluation is not None})
    found = frozenset[str]().union(
        *(group.contaminated_siblings for group in groups),
        *(contaminated_in_arms(views.find(RUNS, f"{name}__").values()) for name in evaluations),
    )
    return found & {run.run for run in asked}


def is_contaminated(views: Views, run: RunState) -> bool:
    """True if the run is contaminated."""
    return run.run in contaminated_among(views, (run,))


def contaminated_in_arms(runs: Iterable[RunState]) -> frozenset[str]:
    """The contaminated runs of evaluations; other runs are ignored."""
    instances: dict[tuple[str, str, int], dict[str, str | None]] = {}
    for run in runs:
        if run.evaluation is not None:
            starts = instances.setdefault((run.evaluation, run.template, run.env_seed), {})
            starts[run.run] = run.fingerprint
    return frozenset(run for starts in instances.values() for run in contaminated_starts(starts))
