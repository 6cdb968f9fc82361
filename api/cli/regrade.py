"""`flywheel runs regrade`: grade recorded end states with another verifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate.figures import decimal

from .output import AsJson, bar, emit_json, open_project, print_rows, say

if TYPE_CHECKING:
    from ..history.regrade import Regrade

_SHOWN = 50
_USUAL = frozenset({"already", "graded"})

RunIds = Annotated[list[str] | None, typer.Argument(help="Ids of the runs.", metavar="RUN...")]
SweepOf = Annotated[str | None, typer.Option(help="Add all ended runs of this sweep or evaluation.")]


def regrade(
    runs: RunIds = None,
    sweep: SweepOf = None,
    all_: Annotated[bool, typer.Option("--all", help="All ended runs.")] = False,
    verifier: Annotated[str | None, typer.Option(help="Version of the verifier. Default: the one of new runs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Grade ended runs again from their recorded end state, with another verifier. The newest grade is in force.

    Earlier grades are kept. Runs whose grade in force is already this verifier's are skipped, so an interrupted command
    can be repeated. Grades of sealed runs are not shown while their benchmark can judge.
    """
    from agents.rewards import REWARD_VERSION

    from ..history.regrade import ended_runs_of, regrade_runs, tell_regrades

    verifier = verifier or REWARD_VERSION
    with open_project() as house:
        views = house.views()
        named = [
            *(runs or []),
            *(ended_runs_of(views, sweep) if sweep is not None else []),
            *(ended_runs_of(views, None) if all_ else []),
        ]
        if not named:
            raise typer.BadParameter("expected at least one run, a --sweep that has ended runs, or --all")
        with bar(f"grading with {verifier}", len(set(named))) as advance:
            found = tell_regrades(views, regrade_runs(house, verifier, named, advance=advance))
    if as_json:
        emit_json({"verifier": verifier, "runs": [_row(each) for each in found]})
    else:
        columns = ("run", "outcome", "passed", "score", "before_passed", "before_score", "reason")
        first = sorted(found, key=lambda each: (each.outcome in _USUAL, each.passed == each.before_passed))
        print_results([_row(each) for each in first], columns)
    if any(each.outcome in {"erased", "failed"} for each in found):
        raise typer.Exit(1)


def _row(found: Regrade) -> dict[str, Any]:
    scores = {"score": found.score, "before_score": found.before_score}
    return {
        "run": found.run,
        "outcome": found.outcome,
        "passed": found.passed,
        "before_passed": found.before_passed,
        **{name: None if score is None else decimal(score) for name, score in scores.items()},
        "reason": found.reason,
    }


def print_results(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Print the first results of grading as a table, and how many have each outcome."""
    print_rows(rows[:_SHOWN], columns, as_json=False, empty="")
    if len(rows) > _SHOWN:
        say(f"{len(rows) - _SHOWN} more; --json shows all")
    counts = Counter(row["outcome"] for row in rows)
    told = " + ".join(f"{counts[outcome]} {outcome.replace('_', ' ')}" for outcome in sorted(counts))
    say(f"{len(rows)} received = {told}")
