"""Contaminated runs: runs whose start state differs from that of the runs they are compared with.

Siblings of a group are compared with one another, without withdrawn runs. In an evaluation, where both arms play the
same instances, the repeats of both arms are compared, including withdrawn ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from .engine.views import Views
from .groups import GROUPS, contaminated_starts
from .runs import RUNS, RunState


def contaminated_runs(views: Views, prefix: str = "") -> frozenset[str]:
    """Every contaminated run in groups and arms; with a prefix, only in groups and runs whose names start with it."""
    groups = (state for state in views.find(GROUPS, prefix).values() if state.evaluation is None)
    in_groups = frozenset(run for state in groups for run in state.contaminated_siblings)
    return in_groups | contaminated_in_arms(views.find(RUNS, prefix).values())


def is_contaminated(views: Views, run: RunState) -> bool:
    """True if the run is contaminated."""
    if run.evaluation is not None:
        return run.run in contaminated_in_arms(views.find(RUNS, f"{run.evaluation}__").values())
    group = views.get(GROUPS, run.group)
    return group is not None and run.run in group.contaminated_siblings


def contaminated_in_arms(runs: Iterable[RunState]) -> frozenset[str]:
    """The contaminated runs of evaluations; other runs are ignored."""
    instances: dict[tuple[str, str, int], dict[str, str | None]] = {}
    for run in runs:
        if run.evaluation is not None:
            starts = instances.setdefault((run.evaluation, run.template, run.env_seed), {})
            starts[run.run] = run.fingerprint
    return frozenset(run for starts in instances.values() for run in contaminated_starts(starts))
