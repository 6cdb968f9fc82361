"""Command-line options of the controller: tasks, budget and promotion rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from eventlog.events import PairedRule, PromotionRule, SeedsRule
from projections.runs import ADVISED, DEMONSTRATION, PLANLESS

from ..course import Course
from ..sweeps.executors import Way
from .sweep_options import finite

_MICRO = 1_000_000


class EvidenceRule(StrEnum):
    """The promotion rule recorded with each proposed piece."""

    PAIRED = "paired"
    SEEDS = "seeds"

    def rule(self) -> PromotionRule:
        """The rule with its defaults."""
        return PairedRule.current() if self is EvidenceRule.PAIRED else SeedsRule()


Rule = Annotated[
    EvidenceRule,
    typer.Option(
        help="When a piece is promoted: paired compares runs with and without it, seeds needs 3 wins in a row."
    ),
]
Rounds = Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rounds (sweeps).")]
BudgetRuns = Annotated[int | None, typer.Option(min=1, help="fast: maximum number of runs, in sweeps and evaluations.")]
BudgetDollars = Annotated[
    float | None, typer.Option(min=0.000001, callback=finite, help="fast: maximum cost, by the price book.")
]
BudgetMinutes = Annotated[int | None, typer.Option(min=1, help="fast: start no new round after this many minutes.")]
Verdicts = Annotated[int | None, typer.Option(min=1, help="fast: stop after this many verdicts of the gate.")]
Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", help="fast: only tasks of this cluster; may be repeated. Default: all."),
]


def refuse_memoryless(executor: Way) -> None:
    """Raise BadParameter for an executor whose runs do not depend on memory."""
    if executor is Way.DELEGATION_PLAN:
        raise typer.BadParameter(
            "--executor delegation-plan: its runs do not use memory, because workers walk the task's plan whatever "
            "they are told, so the fast loop cannot improve them; use `flywheel run --executor delegation`, whose "
            "workers read skills and lessons, or `flywheel rollout sweep --executor delegation-plan`"
        )
    if executor.value in {*(PLANLESS - ADVISED), DEMONSTRATION}:
        raise typer.BadParameter(
            f"--executor {executor.value}: its runs do not use memory, so the fast loop cannot improve them; "
            f"use `flywheel rollout sweep --executor {executor.value}`"
        )


def refuse_fast(given: Mapping[str, object]) -> None:
    """Raise BadParameter if an option of the fast loop is given with `--loop slow`."""
    named = [name for name, value in given.items() if value]
    if named:
        raise typer.BadParameter(
            f"{', '.join(named)}: only for the fast loop; limit `--loop slow` with --rounds, --seeds and --siblings, "
            "and choose tasks with --task"
        )


def within(
    course: Course,
    *,
    runs: int | None,
    dollars: float | None,
    minutes: int | None,
    verdicts: int | None,
    clusters: list[str] | None,
) -> Course:
    """The course with this budget and these clusters."""
    return replace(
        course,
        max_runs=runs,
        max_micro_dollars=None if dollars is None else round(dollars * _MICRO),
        max_minutes=minutes,
        max_verdicts=verdicts,
        clusters=tuple(clusters or ()),
    )
