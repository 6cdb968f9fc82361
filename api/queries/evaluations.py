"""Evaluations, newest first, and what each benchmark has left to spend; of the verdicts only the decision."""

from __future__ import annotations

import msgspec

from gate.live import describe_outcome, evidence_cells
from projections.alpha import ALPHA, AlphaState
from projections.benchmarks import BENCHMARKS, BenchmarkState
from projections.engine.views import Views
from projections.verdicts import VERDICTS, VerdictState

MOST_BENCHMARKS = 50
"""Benchmarks that are looked at for a page."""


class BenchmarkLedger(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark, its size, and its alpha in millionths: of all challengers, spent, and left.

    Of what was spent, `inspected_alpha` went into looks at the sealed figures of the `inspected` evaluations.
    """

    benchmark: str
    environment: str
    sealed: int
    visible: int
    repeats: int
    alpha: int
    spent: int
    left: int
    challenges: int
    challengers: int
    is_exhausted: bool
    inspected: tuple[str, ...]
    inspected_alpha: int
    successor_of: str | None
    since: int


class EvaluationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation and what opening it spent; `decision` is null while its arms are playing."""

    evaluation: str
    benchmark: str
    challenge: int
    alpha: int
    since: int
    champion: str
    challenger: str
    decision: str | None


class EvaluationPage(msgspec.Struct, frozen=True, kw_only=True):
    """Evaluations, newest first; `next` is the position before which to continue, null where no more follow."""

    evaluations: tuple[EvaluationRow, ...]
    next: int | None


class EvidencePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the evidence: after so many sealed units, how much of its boundary was reached, in tenths.

    `p_value` and `boundary` are in 10^-12.
    """

    number: int
    of: int
    units: int
    tenths: int
    says: str
    p_value: int
    boundary: int


def path_of_evidence(state: VerdictState) -> tuple[EvidencePoint, ...]:
    """The looks of an evaluation, in order. All of it is of the sealed part: ask first whether it may be told."""
    return tuple(
        EvidencePoint(
            number=look.number,
            of=look.of,
            units=look.units,
            tenths=evidence_cells(look),
            says=describe_outcome(look),
            p_value=look.p_value,
            boundary=look.boundary,
        )
        for look in state.looks_so_far()
    )


def list_benchmark_ledgers(views: Views) -> tuple[BenchmarkLedger, ...]:
    """The first MOST_BENCHMARKS benchmarks in order of name, each with its ledger."""
    found = views.page(BENCHMARKS, limit=MOST_BENCHMARKS)
    spent = views.pick(ALPHA, found.keys())
    return tuple(_ledger_row(state, spent.get(key, AlphaState())) for key, state in found.items())


def list_evaluations(views: Views, *, before: int | None = None, limit: int = 25) -> EvaluationPage:
    """A page of the evaluations that were opened before a position (None: all), on the first MOST_BENCHMARKS."""
    spendings = [
        (spending, state.benchmark)
        for state in views.page(ALPHA, limit=MOST_BENCHMARKS).values()
        for spending in state.spendings
        if before is None or spending.since < before
    ]
    spendings.sort(key=lambda item: item[0].since, reverse=True)
    shown = spendings[:limit]
    verdicts = views.pick(VERDICTS, [spending.evaluation for spending, _ in shown])
    rows = []
    for spending, benchmark in shown:
        champion, challenger = verdicts[spending.evaluation].artifacts()
        rows.append(
            EvaluationRow(
                evaluation=spending.evaluation,
                benchmark=benchmark,
                challenge=spending.challenge,
                alpha=spending.alpha,
                since=spending.since,
                champion=str(champion),
                challenger=str(challenger),
                decision=verdicts[spending.evaluation].decision,
            )
        )
    return EvaluationPage(evaluations=tuple(rows), next=rows[-1].since if len(spendings) > limit else None)


def _ledger_row(state: BenchmarkState, ledger: AlphaState) -> BenchmarkLedger:
    sealed = sum(task["is_sealed"] for task in state.tasks)
    return BenchmarkLedger(
        benchmark=state.benchmark,
        environment=state.environment,
        sealed=sealed,
        visible=len(state.tasks) - sealed,
        repeats=state.repeats,
        alpha=state.alpha,
        spent=ledger.spent_total,
        left=state.alpha - ledger.spent_total,
        challenges=ledger.challenges,
        challengers=state.challengers,
        is_exhausted=ledger.is_exhausted,
        inspected=tuple(each.evaluation for each in ledger.inspections),
        inspected_alpha=sum(each.alpha for each in ledger.inspections),
        successor_of=state.successor_of,
        since=state.frozen_since,
    )
