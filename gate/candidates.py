"""Which tasks a benchmark could be frozen of: those that enough was played of. Never by how it went. Pure."""

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
    """How many runs of each oracle task were graded outside benchmarks, in order of the tasks' names.

    `left_out` are runs that nothing may be learned from: contaminated or withdrawn. Passed or failed makes no
    difference: a benchmark of what the champion passes could not promote anybody.
    """
    found: Counter[str] = Counter()
    for run in runs:
        tasks = sorted(oracles.get(run.template, ()))
        is_held = any((run.environment, task, run.env_seed) in benchmark_instances for task in tasks)
        if run.evaluation is None and not is_held and run.run in graded and run.run not in left_out:
            found.update(tasks)
    return {task: found[task] for task in sorted(found)}
