"""Evaluations of each benchmark, by the benchmark's digest: which are open, and what the others decided."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState


class EvaluationEntry(FoldState, frozen=True, kw_only=True):
    """An evaluation in short, with the actor that opened it. `decision` is None while it is open.

    `memory` is the digest of the challenger's memory, `weights` are its weights.
    """

    evaluation: str
    benchmark: str
    executor: str | None = None
    model: str | None = None
    opened_since: int
    opened_by: str
    weights: str
    memory: str
    decision: str | None = None

    @property
    def is_open(self) -> bool:
        """True if there is no verdict yet."""
        return self.decision is None


class EvaluationsState(FoldState, frozen=True, kw_only=True):
    """The evaluations on one benchmark, in order of opening, and how many of them are open."""

    open: int = 0
    evaluations: tuple[EvaluationEntry, ...] = ()


def _state(entries: Iterable[EvaluationEntry]) -> EvaluationsState:
    evaluations = tuple(entries)
    return EvaluationsState(open=sum(each.is_open for each in evaluations), evaluations=evaluations)


def _fold(state: EvaluationsState, row: EventRow) -> EvaluationsState:
    name = row.text("evaluation")
    if row.type == "EvaluationOpened":
        entry = EvaluationEntry(
            evaluation=name,
            benchmark=row.text("benchmark"),
            executor=row.maybe_text("executor"),
            model=row.maybe_text("model"),
            opened_since=row.position,
            opened_by=row.actor,
            weights=row.text("challenger.weights"),
            memory=row.text("challenger.memory.digest"),
        )
        return _state([*(each for each in state.evaluations if each.evaluation != name), entry])
    decision = row.text("verdict.decision")
    return _state(replace(each, decision=decision) if each.evaluation == name else each for each in state.evaluations)


EVALUATIONS = Fold(
    name="evaluations",
    version=3,
    reads={
        "EvaluationOpened": (
            "evaluation",
            "benchmark",
            "benchmark_digest",
            "executor",
            "model",
            "challenger.weights",
            "challenger.memory.digest",
        ),
        "VerdictReached": ("evaluation", "verdict.benchmark", "verdict.decision"),
    },
    initial=EvaluationsState(),
    key=lambda row: row.text("benchmark_digest" if row.type == "EvaluationOpened" else "verdict.benchmark"),
    fold=_fold,
)
