"""`flywheel runs grade` and `judges`: grade ended runs with a model, and compare its grades with the oracle's."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate.figures import decimal
from projections.judges import Calibration, calibrate_judges

from .output import AsJson, AsOf, bar, emit_json, open_project, print_rows, say
from .regrade import RunIds, SweepOf, print_results

if TYPE_CHECKING:
    from ..history.grade import JudgeResult


def grade(
    runs: RunIds = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Grade with the judge model (FLYWHEEL_JUDGE_MODEL), a proxy for the oracle.")
    ] = False,
    sweep: SweepOf = None,
    max_parallel: Annotated[int, typer.Option(min=1, max=64, help="Number of model calls at the same time.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Grade ended runs with a judge model, from their records. An oracle's grade of a run stays in force.

    Runs that this judge has already graded are skipped, so an interrupted command can be repeated.
    """
    if not judge:
        raise typer.BadParameter(
            "the oracle grades runs when they end; add --judge to grade them with a judge model, or use "
            "`flywheel runs regrade` to grade them again"
        )
    from ..history.grade import grade_runs
    from ..history.regrade import ended_runs_of
    from ..sweeps.models import judge_from

    with open_project() as house:
        named = [*(runs or []), *(ended_runs_of(house.views(), sweep) if sweep is not None else [])]
        if not named:
            raise typer.BadParameter("expected at least one run, or a --sweep that has ended runs")
        with judge_from(house.settings) as model, bar(f"grading with {model.name}", len(set(named))) as advance:
            found = grade_runs(house, model, named, max_parallel=max_parallel, advance=advance)
        rates = [_rates(row) for row in calibrate_judges(house.views())]
    if as_json:
        emit_json({"runs": [_row_of_grade(row) for row in found], "judges": rates})
    else:
        columns = ("run", "outcome", "passed", "score", "reason")
        first = sorted(found, key=lambda row: row.outcome != "failed")
        print_results([_row_of_grade(row) for row in first], columns)
        say("")
        print_rows(rates, RATES, as_json=False, empty="no judge has graded a run")
    if any(row.outcome == "failed" for row in found):
        raise typer.Exit(1)


def _row_of_grade(row: JudgeResult) -> dict[str, Any]:
    score = None if row.score is None else decimal(row.score)
    return {"run": row.run, "outcome": row.outcome, "passed": row.passed, "score": score, "reason": row.reason}


RATES = ("judge", "opinions", "compared", "accuracy", "false_pass_rate", "false_fail_rate")


def _rates(row: Calibration) -> dict[str, Any]:
    shares = {"accuracy": row.accuracy, "false_pass_rate": row.false_pass_rate, "false_fail_rate": row.false_fail_rate}
    return {
        **dataclasses.asdict(row),
        "compared": row.compared_runs,
        **{name: None if share is None else decimal(share) for name, share in shares.items()},
    }


def judges(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List judge models with their agreement with the oracle: accuracy, false passes and false fails."""
    with open_project() as house:
        found = calibrate_judges(house.views_at(as_of))
    rows = [_rates(row) for row in found]
    print_rows(rows, RATES, as_json=as_json, empty="no judge has graded a run; use `flywheel runs grade --judge`")
