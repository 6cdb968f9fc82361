"""Benchmarks: frozen tasks and seeds. Whoever plans runs asks here what is sealed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eventlog.events import BenchmarkFrozen

from .projection import Fold, Row, State


class BenchmarkState(State, frozen=True, kw_only=True):
    """A benchmark as it was frozen; templates and tasks keep the shape they have in the event."""

    benchmark: str = ""
    environment: str = ""
    templates: tuple[dict[str, Any], ...] = ()
    tasks: tuple[dict[str, Any], ...] = ()
    repeats: int = 0
    digest: str = ""

    def frozen(self) -> BenchmarkFrozen:
        """The event this state holds."""
        return BenchmarkFrozen.model_validate(
            {
                "benchmark": self.benchmark,
                "environment": self.environment,
                "templates": self.templates,
                "tasks": self.tasks,
                "repeats": self.repeats,
                "digest": self.digest,
            },
            strict=False,
        )


Instance = tuple[str, str, int]
"""Environment, oracle task, seed: what makes two runs the same instance, whatever a run says of itself."""


def benchmark_instances(benchmarks: Iterable[BenchmarkState]) -> frozenset[Instance]:
    """Every instance that belongs to any benchmark, visible or sealed."""
    found = set()
    for state in benchmarks:
        oracle = {template["template_id"]: template["oracle_task_id"] for template in state.templates}
        found |= {(state.environment, oracle[task["template"]], task["env_seed"]) for task in state.tasks}
    return frozenset(found)


def _fold(_state: BenchmarkState, row: Row) -> BenchmarkState:
    return BenchmarkState(
        benchmark=row.text("benchmark"),
        environment=row.text("environment"),
        templates=tuple(row.records("templates")),
        tasks=tuple(row.records("tasks")),
        repeats=row.number("repeats"),
        digest=row.text("digest"),
    )


BENCHMARKS = Fold(
    name="benchmarks",
    version=1,
    reads={"BenchmarkFrozen": ("benchmark", "environment", "templates", "tasks", "repeats", "digest")},
    initial=BenchmarkState(),
    key=lambda row: row.text("benchmark"),
    fold=_fold,
)
