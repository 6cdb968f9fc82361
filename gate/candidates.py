"""Counts graded runs per oracle task, to choose the tasks of a benchmark independently of their outcome. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set

from projections.benchmarks import Instance
from projections.runs import RunState


def graded_tasks(
    runs: Iterable[RunState],
    graded: Set[str],
    benchmark_instances: Set[Instance],
    oracles: Mapping[str, Set[str]],
    left_out: Set[str],
) -> dict[str, int]:
    """Number of graded runs of each oracle task outside benchmarks, ordered by task name.

    `left_out` are contaminated or withdrawn runs. Passed and failed runs count alike: a benchmark of tasks that the
    champion passes could never promote a challenger.
    """
    found: Counter[str] = Counter()
    for run in runs:
        tasks = sorted(oracles.get(run.template, ()))
        is_held = any((run.environment, task, run.env_seed) in benchmark_instances for task in tasks)
        if run.evaluation is None and not is_held and run.run in graded and run.run not in left_out:
            found.update(tasks)
    return {task: found[task] for task in sorted(found)}
