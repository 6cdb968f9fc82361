"""`flywheel runs`: what was run, and how it went."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from gate.figures import decimal, dollars
from projections.rewards import REWARDS, RewardState
from projections.runs import RUNS, RunState

from ..errors import Unknown
from ..reading import read_position
from .output import AsJson, AsOf, emit_json, facts, listing, opened, say, table

app = typer.Typer(help="Runs: list, show.", no_args_is_help=True)


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
        views = house.views(read_position(house.store, as_of))
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
