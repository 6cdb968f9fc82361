"""Benchmarks: frozen tasks and seeds, and the instances that other runs must not use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

from eventlog import events

from .engine.projection import EventRow, Fold, FoldState
from .runs import RunState

if TYPE_CHECKING:
    from eventlog.events import BenchmarkFrozen, SweepPlanned


class BenchmarkState(FoldState, frozen=True, kw_only=True):
    """A frozen benchmark. Templates and tasks have the same shape as in the event."""

    benchmark: str = ""
    environment: str = ""
    templates: tuple[dict[str, Any], ...] = ()
    tasks: tuple[dict[str, Any], ...] = ()
    repeats: int = 0
    alpha: int = 0
    challengers: int = 0
    successor_of: str | None = None
    frozen_since: int = 0
    digest: str = ""

    def frozen_event(self) -> BenchmarkFrozen:
        """The BenchmarkFrozen event from which this state was folded."""
        return events.BenchmarkFrozen.model_validate(
            {
                "benchmark": self.benchmark,
                "environment": self.environment,
                "templates": self.templates,
                "tasks": self.tasks,
                "repeats": self.repeats,
                "alpha": self.alpha,
                "challengers": self.challengers,
                "successor_of": self.successor_of,
                "digest": self.digest,
            },
            strict=False,
        )


Instance = tuple[str, str, int]
"""Environment, oracle task and seed. Two runs with equal ones play the same instance, whatever their templates."""


def benchmark_instances(benchmarks: Iterable[BenchmarkState]) -> frozenset[Instance]:
    """Every instance that belongs to any benchmark, visible or sealed."""
    found = set()
    for state in benchmarks:
        oracle = {template["template_id"]: template["oracle_task_id"] for template in state.templates}
        found |= {(state.environment, oracle[task["template"]], task["env_seed"]) for task in state.tasks}
    return frozenset(found)


def instances_of(benchmark: BenchmarkFrozen) -> tuple[Instance, ...]:
    """The instances of one benchmark, in the order of its tasks."""
    oracle = {template.template_id: template.oracle_task_id for template in benchmark.templates}
    return tuple((benchmark.environment, oracle[task.template], task.env_seed) for task in benchmark.tasks)


def seen_instances(
    sweeps: Iterable[SweepPlanned], runs: Iterable[RunState], oracles: Mapping[str, Set[str]]
) -> frozenset[Instance]:
    """Every instance that was planned or played outside evaluations, so that agents may have learned from it.

    For a template without a known oracle task, the template's name is used as the task.
    """
    found = set()
    for sweep in sweeps:
        oracle = {template.template_id: template.oracle_task_id for template in sweep.templates}
        found |= {(sweep.environment, oracle[spec.template], spec.env_seed) for spec in sweep.specs}
    for run in runs:
        if run.evaluation is None:
            found |= {(run.environment, task, run.env_seed) for task in oracles.get(run.template, {run.template})}
    return frozenset(found)


def _fold(_state: BenchmarkState, row: EventRow) -> BenchmarkState:
    return BenchmarkState(
        benchmark=row.text("benchmark"),
        environment=row.text("environment"),
        templates=tuple(row.records("templates")),
        tasks=tuple(row.records("tasks")),
        repeats=row.number("repeats"),
        alpha=row.number("alpha"),
        challengers=row.number("challengers"),
        successor_of=row.maybe_text("successor_of"),
        frozen_since=row.position,
        digest=row.text("digest"),
    )


BENCHMARKS = Fold(
    name="benchmarks",
    version=3,
    reads={
        "BenchmarkFrozen": (
            "benchmark",
            "environment",
            "templates",
            "tasks",
            "repeats",
            "alpha",
            "challengers",
            "successor_of",
            "digest",
        )
    },
    initial=BenchmarkState(),
    key=lambda row: row.text("benchmark"),
    fold=_fold,
    is_kept=True,
)
