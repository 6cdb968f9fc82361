"""`flywheel runs`: what was run, and how it went."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import msgspec
import typer

from gate.figures import decimal, dollars
from projections.judges import JUDGES, Calibration, calibrations
from projections.rewards import REWARDS, RewardState
from projections.runs import RUNS, RunState

from ..errors import Unknown
from ..grading import Graded, ended_of, grade_runs, judge_from
from ..reading import read_position
from .output import AsJson, AsOf, bar, emit_json, facts, listing, opened, say, table

app = typer.Typer(help="Runs: list, show, grade, judges.", no_args_is_help=True)


@app.command("list")
def list_(
    sweep: Annotated[str | None, typer.Option(help="Only runs of this sweep or evaluation.")] = None,
    status: Annotated[str | None, typer.Option(help="started, completed, halted, out_of_budget or missing.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only runs that were graded and did not pass.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 50,
    after: Annotated[str, typer.Option(help="Go on after this run.")] = "",
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """List runs by name, with their rewards."""
    with opened() as house:
        views = house.views(read_position(house.engine, as_of))
        prefix = "" if sweep is None else f"{sweep}__"
        rewards = views.find(REWARDS, prefix)
        rows = [
            _row(state, rewards.get(key))
            for key, state in views.find(RUNS, prefix).items()
            if key.encode() > after.encode() and status in {None, state.status}
        ]
    rows = [row for row in rows if not failed or row["passed"] is False]
    columns = ("run", "status", "passed", "score", "value", "cost", "candidate")
    listing(rows[:limit], columns, as_json=as_json, empty="no runs yet; `flywheel run` makes some")
    if len(rows) > limit and not as_json:
        say(f"{len(rows) - limit} more; go on with --after {rows[limit - 1]['run']}")


def _row(state: RunState, reward: RewardState | None) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(state)
    row |= {"passed": None, "score": None, "value": None, "cost": None}
    if reward is not None:
        row |= {
            "passed": reward.passed,
            "score": decimal(reward.score),
            "value": None if reward.value is None else decimal(reward.value),
            "cost": None if reward.cost is None else dollars(reward.cost),
        }
    return row


@app.command()
def show(run: Annotated[str, typer.Argument(help="The run's name.")], as_json: AsJson = False) -> None:
    """Show one run: where it came from, its steps, its reward."""
    with opened() as house:
        views = house.views()
        state = views.get(RUNS, run)
        if state is None:
            raise Unknown(what="run", actual=run, way_out="`flywheel runs list` names them.")
        row = _row(state, views.get(REWARDS, run))
        events = [event.event for event in house.store.read(stream=f"run/{run}", upto=views.upto)]
    if as_json:
        emit_json({**row, "events": [event.model_dump(mode="json") for event in events]})
        return
    facts([(name, value) for name, value in row.items() if value not in (None, "", [])])
    steps = [event for event in events if event.type == "StepTaken"]
    say("")
    table(
        ("step", "action", "intent", "outcome", "status"),
        [(s.index, s.action, s.intent, s.outcome, s.http_status) for s in steps],
        empty="no steps recorded",
    )


@app.command()
def grade(
    runs: Annotated[list[str] | None, typer.Argument(help="The runs' names.", metavar="RUN...")] = None,
    judge: Annotated[bool, typer.Option("--judge", help="By the judge of FLYWHEEL_JUDGE_MODEL: a proxy.")] = False,
    sweep: Annotated[str | None, typer.Option(help="All ended runs of this sweep or evaluation as well.")] = None,
    max_parallel: Annotated[int, typer.Option(min=1, max=64, help="Questions side by side.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Have ended runs judged from what was recorded. Where an oracle graded a run, its word stands.

    A run that this judge has judged is not asked about again: run it again to go on.
    """
    if not judge:
        raise typer.BadParameter("runs are graded by their oracle when they end; say --judge to have a judge look too")
    with opened() as house:
        named = [*(runs or []), *(ended_of(house.views(), sweep) if sweep is not None else [])]
        if not named:
            raise typer.BadParameter("expected at least one run, or a --sweep that has ended runs")
        with judge_from(house.settings) as model, bar(f"judged by {model.name}", len(set(named))) as advance:
            found = grade_runs(house, model, named, max_parallel=max_parallel, advance=advance)
        rates = [_rates(row) for row in calibrations(house.views().find(JUDGES).values())]
    if as_json:
        emit_json({"runs": [_graded(row) for row in found], "judges": rates})
    else:
        _show_grades(found, rates)
    if any(row.outcome == "failed" for row in found):
        raise typer.Exit(1)


def _graded(row: Graded) -> dict[str, Any]:
    score = None if row.score is None else decimal(row.score)
    return {"run": row.run, "outcome": row.outcome, "passed": row.passed, "score": score, "reason": row.reason}


def _show_grades(found: tuple[Graded, ...], rates: list[dict[str, Any]]) -> None:
    columns = ("run", "outcome", "passed", "score", "reason")
    first = sorted(found, key=lambda row: row.outcome != "failed")[:50]
    listing([_graded(row) for row in first], columns, as_json=False, empty="")
    if len(found) > 50:  # noqa: PLR2004 (as many as `runs list` shows)
        say(f"{len(found) - 50} more; --json shows all")
    outcomes = sorted({row.outcome for row in found})
    counts = " + ".join(f"{sum(row.outcome == each for row in found)} {each.replace('_', ' ')}" for each in outcomes)
    say(f"{len(found)} received = {counts}")
    say("")
    listing(rates, RATES, as_json=False, empty="no judge has spoken")


RATES = ("judge", "opinions", "compared", "accuracy", "false_pass_rate", "false_fail_rate")


def _rates(row: Calibration) -> dict[str, Any]:
    shares = {"accuracy": row.accuracy, "false_pass_rate": row.false_pass_rate, "false_fail_rate": row.false_fail_rate}
    return {
        **dataclasses.asdict(row),
        "compared": row.compared,
        **{name: None if share is None else decimal(share) for name, share in shares.items()},
    }


@app.command()
def judges(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List judges beside the oracle: how often each passed what it failed, and failed what it passed."""
    with opened() as house:
        found = calibrations(house.views(read_position(house.engine, as_of)).find(JUDGES).values())
    rows = [_rates(row) for row in found]
    listing(rows, RATES, as_json=as_json, empty="no judge has spoken; `flywheel runs grade --judge` asks one")
