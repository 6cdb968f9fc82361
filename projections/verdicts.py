"""Verdicts: opened evaluations and their verdicts, with every number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace

from eventlog import events

from .engine.projection import EventRow, Fold, FoldState

if TYPE_CHECKING:
    from eventlog.events import Artifact, Look, Rules, TaskPlan, Verdict


class VerdictState(FoldState, frozen=True, kw_only=True):
    """An evaluation. `verdict` has the same shape as in the event; None while the arms are still playing.

    `looks` are the looks at its evidence so far, with the shape they have in their events, and `runs` and `most_runs`
    what the last one says of them.
    """

    evaluation: str = ""
    benchmark: str = ""
    benchmark_digest: str = ""
    champion: dict[str, Any] = field(default_factory=dict)
    challenger: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    challenge: int = 0
    alpha: int = 0
    suite: tuple[dict[str, Any], ...] = ()
    executor: str | None = None
    opened_since: int = 0
    looks: tuple[dict[str, Any], ...] = ()
    runs: int = 0
    most_runs: int = 0
    decision: str | None = None
    verdict: dict[str, Any] | None = None

    def artifacts(self) -> tuple[Artifact, Artifact]:
        """Champion and challenger."""
        return events.Artifact.model_validate(self.champion, strict=False), events.Artifact.model_validate(
            self.challenger, strict=False
        )

    def opening_rules(self) -> Rules:
        """The rules the evaluation was opened under."""
        return events.Rules.model_validate(self.rules, strict=False)

    def plans(self) -> tuple[TaskPlan, ...]:
        """The plans from which both arms start; empty for evaluations from before plans were recorded."""
        return tuple(events.TaskPlan.model_validate(plan) for plan in self.suite)

    def looks_so_far(self) -> tuple[Look, ...]:
        """The looks at the evidence, in order."""
        return tuple(events.Look.model_validate(look) for look in self.looks)

    def verdict_reached(self) -> Verdict | None:
        """The verdict, or None."""
        return None if self.verdict is None else events.Verdict.model_validate(self.verdict, strict=False)


def _fold(state: VerdictState, row: EventRow) -> VerdictState:
    if row.type == "EvaluationOpened":
        return VerdictState(
            evaluation=row.text("evaluation"),
            benchmark=row.text("benchmark"),
            benchmark_digest=row.text("benchmark_digest"),
            champion=row.record("champion"),
            challenger=row.record("challenger"),
            rules=row.record("rules"),
            challenge=row.number("challenge"),
            alpha=row.number("alpha"),
            suite=tuple(row.records("suite")),
            executor=row.maybe_text("executor"),
            opened_since=row.position,
        )
    if row.type == "EvaluationLooked":
        looks = (*state.looks, row.record("look"))
        return replace(state, looks=looks, runs=row.number("runs"), most_runs=row.number("most_runs"))
    return replace(state, decision=row.text("verdict.decision"), verdict=row.record("verdict"))


VERDICTS = Fold(
    name="verdicts",
    version=4,
    reads={
        "EvaluationOpened": (
            "evaluation",
            "benchmark",
            "benchmark_digest",
            "champion",
            "challenger",
            "rules",
            "challenge",
            "alpha",
            "suite",
            "executor",
        ),
        "EvaluationLooked": ("evaluation", "look", "runs", "most_runs"),
        "VerdictReached": ("evaluation", "verdict", "verdict.decision"),
    },
    initial=VerdictState(),
    key=lambda row: row.text("evaluation"),
    fold=_fold,
)
