"""What the controller is told on the command line: which tasks, and within which budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from eventlog.events import PairedRule, PromotionRule, SeedsRule

from ..course import Course
from ..sweeps.executors import Way
from .sweep_options import finite

_MICRO = 1_000_000


class EvidenceRule(StrEnum):
    """Which rule rides on what recovery proposes."""

    PAIRED = "paired"
    SEEDS = "seeds"

    def rule(self) -> PromotionRule:
        """The rule with its defaults."""
        return PairedRule() if self is EvidenceRule.PAIRED else SeedsRule()


Rule = Annotated[
    EvidenceRule, typer.Option(help="What promotes: paired asks for evidence from siblings, seeds for 3 wins in a row.")
]
Rounds = Annotated[int, typer.Option(min=1, max=1000, help="At most so many rounds: sweeps.")]
BudgetRuns = Annotated[int | None, typer.Option(min=1, help="fast: at most so many runs, of sweeps and of arms.")]
BudgetDollars = Annotated[
    float | None, typer.Option(min=0.000001, callback=finite, help="fast: at most so much, by the price book.")
]
BudgetMinutes = Annotated[int | None, typer.Option(min=1, help="fast: no new round after so many minutes.")]
Verdicts = Annotated[int | None, typer.Option(min=1, help="fast: stop after so many verdicts of the gate.")]
Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", help="fast: only tasks of this cluster; may be given again. Default: all."),
]


def refuse_memoryless(executor: Way) -> None:
    """Raise BadParameter for a way of doing tasks in which memory makes no difference."""
    if executor in {Way.POLICY, Way.DEMONSTRATION, Way.MINIWOB_SCRIPT}:
        raise typer.BadParameter(
            f"--executor {executor.value}: its runs teach memory nothing, so there is nothing to judge; "
            f"say `flywheel rollout sweep --executor {executor.value}`"
        )


def refuse_fast(given: Mapping[str, object]) -> None:
    """Raise BadParameter for an option of the fast loop that was given, by its name, where the slow one alone runs."""
    named = [name for name, value in given.items() if value]
    if named:
        raise typer.BadParameter(
            f"{', '.join(named)}: of the fast loop; `--loop slow` is bounded by --rounds, --seeds and --siblings, "
            "and takes tasks by --task"
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
    """A course with a budget, over these clusters."""
    return replace(
        course,
        max_runs=runs,
        max_micro_dollars=None if dollars is None else round(dollars * _MICRO),
        max_minutes=minutes,
        max_verdicts=verdicts,
        clusters=tuple(clusters or ()),
    )
