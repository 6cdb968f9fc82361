"""`flywheel runs`: what was run, how it went, and what of it no longer counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from difflib import unified_diff
from typing import Annotated, Any

import msgspec
import typer

from agents.rollouts.replay import Divergence, Replayed
from eventlog.events import AnyEvent
from gate.figures import count_noun, decimal, dollars
from projections.contamination import contaminated_runs, is_contaminated
from projections.rewards import REWARDS, RewardState, VerifierGrade
from projections.runs import RUNS, RunState
from projections.taint import TaintState, erased_runs, withdrawals

from ..errors import Unknown
from ..history.replay import replay_run
from ..history.withdraw import taint_of_runs, withdrawable, withdrawal
from ..history.withdraw import withdraw_runs as withdrawn
from ..positions import read_position
from . import judges, regrade
from .output import AsJson, AsOf, confirm, emit_json, open_project, print_facts, print_rows, say, table
from .taint import show_learned, taint_report

app = typer.Typer(help="Runs: list, show, replay, grade, regrade, judges, withdraw.", no_args_is_help=True)
ACTOR = "operator"
MARKS = ("withdrawn", "erased", "contaminated")
"""What takes a run out of what is learned; a column where any run has it."""


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
    with open_project() as house:
        views = house.views(read_position(house.store, as_of))
        prefix = "" if sweep is None else f"{sweep}__"
        rewards = views.find(REWARDS, prefix)
        taken_out, erased, contaminated = withdrawals(views), erased_runs(views), contaminated_runs(views)
        rows = [
            _row(state, rewards.get(key), taken_out.get(key), erased.get(key), contaminated=key in contaminated)
            for key, state in views.find(RUNS, prefix).items()
            if key.encode() > after.encode() and status in {None, state.status}
        ]
    rows = [row for row in rows if not failed or row["passed"] is False]
    marks = [mark for mark in MARKS if any(row[mark] not in (None, False) for row in rows[:limit])]
    columns = ("run", "status", "passed", "score", "value", "cost", "candidate", *marks)
    print_rows(rows[:limit], columns, as_json=as_json, empty="no runs yet; `flywheel run` makes some")
    if len(rows) > limit and not as_json:
        say(f"{len(rows) - limit} more; go on with --after {rows[limit - 1]['run']}")


def _row(
    state: RunState,
    reward: RewardState | None,
    taken_out: TaintState | None,
    erased: TaintState | None,
    *,
    contaminated: bool,
) -> dict[str, Any]:
    """A run for people. `withdrawn` and `erased` are the positions since which it is, None where it is not."""
    row: dict[str, Any] = msgspec.to_builtins(state)
    row |= {"contaminated": contaminated, "passed": None, "score": None, "value": None, "cost": None, "shaped": None}
    row |= {name: None if fact is None else fact.since for name, fact in (("withdrawn", taken_out), ("erased", erased))}
    if reward is not None:
        row |= {
            "passed": reward.passed,
            "score": decimal(reward.score),
            "value": None if reward.value is None else decimal(reward.value),
            "cost": None if reward.cost is None else dollars(reward.cost),
            "shaped": None if reward.shaped is None else decimal(reward.shaped),
            "verifier": reward.version,
        }
    return row


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="The run's name.")], as_of: AsOf = None, as_json: AsJson = False
) -> None:
    """Show one run: where it came from, its steps, its reward."""
    with open_project() as house:
        views = house.views(read_position(house.store, as_of))
        state = views.get(RUNS, run)
        if state is None:
            raise Unknown(what="run", actual=run, way_out="`flywheel runs list` names them.")
        facts_of = withdrawals(views).get(run), erased_runs(views).get(run)
        reward = views.get(REWARDS, run)
        row = _row(state, reward, *facts_of, contaminated=is_contaminated(views, state))
        events = [event.event for event in house.store.read(stream=f"run/{run}", upto=views.upto)]
    if as_json:
        emit_json({**row, "events": [event.model_dump(mode="json") for event in events]})
        return
    row |= {name: _describe_fact(fact) for name, fact in zip(("withdrawn", "erased"), facts_of, strict=True)}
    row["contaminated"] = "it began from another state than the runs beside it" if row["contaminated"] else None
    row |= {f"graded by {grade.version}": _by(grade) for grade in (() if reward is None else reward.others)}
    print_facts([(name, value) for name, value in row.items() if value not in (None, "", [])])
    steps = [event for event in events if event.type == "StepTaken"]
    say("")
    table(
        ("step", "action", "intent", "outcome", "status"),
        [(s.index, s.action, s.intent, s.outcome, s.http_status) for s in steps],
        empty="no steps recorded",
    )
    _print_learned(events)


def _print_learned(events: Sequence[AnyEvent]) -> None:
    """What gave way in the run's plan, and what recovery made of its failure; nothing where there is neither."""
    gave_way = [each for event in events if event.type == "RunStarted" for each in event.conflicts]
    if gave_way:
        say("")
        table(("plan step", "applied", "gave way"), [(each.step, each.kept, each.dropped) for each in gave_way])
    decided = [event for event in events if event.type == "RecoveryDecided"]
    if decided:
        say("")
        columns = ("plan step", "recovery", "tried", "proposed", "why")
        table(columns, [(e.step, e.mode, e.tried, ", ".join(e.proposed), e.reason.replace("_", " ")) for e in decided])


def _by(grade: VerifierGrade) -> str:
    return f"{decimal(grade.score)}, {'passed' if grade.passed else 'failed'}, at position {grade.since}"


def _describe_fact(fact: TaintState | None) -> str | None:
    return None if fact is None else f"since position {fact.since}: {fact.reason}"


@app.command()
def withdraw(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="The runs' names.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded with the runs.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what was learned from them, and stop there.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn nothing from these runs from here on; what was learned from them is shown first.

    Rewrites, groups and later datasets go on as if the runs had never been. Champions, verdicts and costs keep their
    facts. There is no way back.
    """
    with open_project() as house:
        views = house.views()
        chosen = withdrawable(views, runs)
        withdrawal(chosen, reason)
        found = taint_of_runs(house, views, chosen)
        if not as_json:
            show_learned(found, empty="")
        since = None
        if not dry_run:
            confirm(f"Withdraw {count_noun(len(chosen), 'run')}?", yes=yes)
            since = withdrawn(house.store, chosen, reason, ACTOR)
    if as_json:
        emit_json({"runs": chosen, "since": since, "reason": reason, "tainted": taint_report(found)})
    elif since is None:
        say("Nothing was changed: this was a dry run.")
    else:
        say(f"{count_noun(len(chosen), 'run')} withdrawn since position {since}")


@app.command()
def replay(run: Annotated[str, typer.Argument(help="The run's name.")], as_json: AsJson = False) -> None:
    """Execute a recorded run again from its record, without side effects, and show the first divergence.

    Exit code 0 where it is identical, 1 where it differs or where bytes that it needs were erased.
    """
    with open_project() as house:
        found = replay_run(house.store, house.blobs, house.views, run, house.embeddings_of)
    if as_json:
        emit_json(dataclasses.asdict(found))
    else:
        _tell(found)
    if found.outcome != "identical":
        raise typer.Exit(1)


def _tell(found: Replayed) -> None:
    if found.outcome == "erased":
        say(f"erased: {found.run} needs the blob {found.erased}, which was erased with its subject")
        return
    if found.divergence is None:
        steps, pages = count_noun(found.steps, "step"), count_noun(found.pages, "recorded page")
        say(f"identical: {steps} over {pages}; {', '.join(found.compared)} are as recorded")
    else:
        say(f"different: {found.run} diverges first in {found.divergence.where}")
        for line in _diff(found.divergence):
            say(line)
    for line in found.not_compared:
        say(f"not compared: {line}")
    for line in found.trusted:
        say(f"from the record alone: {line}")


def _diff(divergence: Divergence) -> list[str]:
    lines = unified_diff(
        divergence.expected, divergence.actual, fromfile="recorded", tofile="replayed", n=2, lineterm=""
    )
    return list(lines)


for _command in (judges.grade, judges.judges, regrade.regrade):
    app.command()(_command)
