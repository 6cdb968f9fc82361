"""`flywheel runs`: what was run, how it went, and what no longer counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gate.figures import count_noun, decimal, dollars
from projections.rewards import RewardState, VerifierGrade

from ..queries.runs import MarkedRun, RunFilter, RunReward, refuse_hidden_run
from ..settings import read_settings
from . import judges, regrade
from .abandon import abandon_runs
from .agent_options import AdviceOf, Telling, named_agent
from .loop_replay import print_loop_replay
from .output import (
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    confirm,
    emit_json,
    one_of,
    open_project,
    print_facts,
    print_rows,
    say,
    say_more,
    table,
)
from .served_runs import last_printed, page_runs, reasons_left_out, refuse_unknown_sweep, whole_run
from .sources import Server, Source, open_source
from .taint import show_learned

if TYPE_CHECKING:
    from agents.rollouts.replay import Replayed
    from eventlog.events import Event

app = typer.Typer(help="Runs: list, show, replay, grade, regrade, judges, withdraw, abandon.", no_args_is_help=True)
ACTOR = "operator"
STATUSES = ("started", "completed", "halted", "out_of_budget", "missing", "ended")
MARKS = ("withdrawn", "erased", "contaminated")
"""Columns for facts that take a run out of learning: the list shows each where any run has it."""


@app.command("list")
def list_(
    sweep: Annotated[str | None, typer.Option(help="Only runs of this sweep or evaluation.")] = None,
    status: Annotated[
        str | None, typer.Option(callback=one_of(STATUSES, "status of a run"), help=f"One of {', '.join(STATUSES)}.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only runs that were graded and did not pass.")] = False,
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List runs by name, with their rewards."""
    wanted = RunFilter(prefix=sweep, status=status, is_failed=failed)
    with open_source(server, as_of) as source:
        page, following = page_runs(source, wanted, after, limit)
        empty = "" if page else _why_empty(source, wanted, after)
    rows = [_row(found, found.reward) for found in page]
    marks = [mark for mark in MARKS if any(row[mark] not in (None, False) for row in rows)]
    columns = ("run", "status", "passed", "score", "value", "cost", "candidate", *marks)
    columns += ("missing_reason",) if any(row.get("missing_reason") for row in rows) else ()
    print_rows(rows, columns, as_json=as_json, empty=empty)
    say_more(following)


def _why_empty(source: Source, wanted: RunFilter, after: str | None) -> str:
    """Why a list of runs is empty. Raises Unknown if its sweep or evaluation does not exist."""
    if not page_runs(source, RunFilter(), None, 1)[0]:
        return f"no runs up to position {source.upto}; `flywheel run` makes some"
    if wanted.prefix is not None and not page_runs(source, RunFilter(prefix=wanted.prefix), None, 1)[0]:
        refuse_unknown_sweep(source, wanted.prefix)
        return f"no run of {wanted.prefix} has started yet"
    asked = {
        f"of {wanted.prefix}": wanted.prefix,
        f"with the status {wanted.status}": wanted.status,
        "graded as failed": wanted.is_failed,
        f"after {after}": after,
    }
    return f"no run {' '.join(words for words, given in asked.items() if given)}"


def _row(run: MarkedRun, reward: RunReward | RewardState | None) -> dict[str, Any]:
    """A run and its grade side by side, with numbers as people read them."""
    row: dict[str, Any] = {name: value for name, value in msgspec.to_builtins(run).items() if name != "reward"}
    row |= dict.fromkeys(("passed", "score", "value", "cost", "shaped", "step_reward"))
    if reward is not None:
        row |= {
            "passed": reward.passed,
            "score": decimal(reward.score),
            "value": None if reward.value is None else decimal(reward.value),
            "cost": None if reward.cost is None else dollars(reward.cost),
            "shaped": None if reward.shaped is None else decimal(reward.shaped),
            "step_reward": None if reward.steps is None else decimal(reward.steps),
            "verifier": reward.version,
        }
    return row


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="The run's name.")],
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show one run: where it came from, its steps, its reward, and of an agent of your own what it printed last."""
    from eventlog.events import RunMissing, StepTaken

    with open_source(server, as_of) as source:
        found, events = whole_run(source, run)
        facts = reasons_left_out(source, found.run)
        printed = "" if as_json else last_printed(source, events)
    row = _row(found.run, found.reward)
    if as_json:
        emit_json({**row, "events": [event.model_dump(mode="json") for event in events]})
        return
    row |= facts
    row["missing because"] = next((event.detail for event in events if isinstance(event, RunMissing)), None)
    row["contaminated"] = "it began from another state than the runs beside it" if row["contaminated"] else None
    others = () if found.reward is None else found.reward.others
    row |= {f"graded by {grade.version}": _describe_grade(grade) for grade in others}
    print_facts([(name, value) for name, value in row.items() if value not in (None, "", [])])
    steps = [event for event in events if isinstance(event, StepTaken)]
    say("")
    table(
        ("step", "action", "intent", "outcome", "status"),
        [(s.index, s.action, s.intent, s.outcome, s.http_status) for s in steps],
        empty="no steps recorded",
    )
    if printed:
        say(f"\nThe last that the agent printed:\n{printed}")
    _print_learned(events)


def _print_learned(events: Sequence[Event]) -> None:
    """Print the conflicts within the run's plan and the decisions of recovery, where there are any."""
    from eventlog.events import RecoveryDecided, RunStarted

    conflicts = [each for event in events if isinstance(event, RunStarted) for each in event.conflicts]
    if conflicts:
        say("")
        table(("plan step", "applied", "gave way"), [(each.step, each.kept, each.dropped) for each in conflicts])
    decided = [event for event in events if isinstance(event, RecoveryDecided)]
    if decided:
        say("")
        columns = ("plan step", "recovery", "tried", "proposed", "why")
        table(columns, [(e.step, e.mode, e.tried, ", ".join(e.proposed), e.reason.replace("_", " ")) for e in decided])


def _describe_grade(grade: VerifierGrade) -> str:
    return f"{decimal(grade.score)}, {'passed' if grade.passed else 'failed'}, at position {grade.since}"


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
    """Learn nothing from these runs from now on; what was learned from them is shown first.

    Rewrites, groups and later datasets continue as if the runs had never been played. Champions, verdicts and costs
    keep their facts. This cannot be undone.
    """
    from ..history.withdraw import taint_of_runs, withdraw_runs, withdrawable, withdrawal

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
            since = withdraw_runs(house.store, chosen, reason, ACTOR)
    if as_json:
        emit_json({"runs": chosen, "since": since, "reason": reason, "tainted": found})
    elif since is None:
        say("Nothing was changed: this was a dry run.")
    else:
        say(f"{count_noun(len(chosen), 'run')} withdrawn since position {since}")


@app.command()
def replay(
    run: Annotated[str, typer.Argument(help="The run's name.")],
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="python:MODULE:FUNCTION|command:PROGRAM",
            help="The agent of your own that played the run, to play it again: its site and its model are answered "
            "from the record (kept with FLYWHEEL_RECORD_SITE=1).",
        ),
    ] = None,
    advice: AdviceOf = Telling.TASK,
    as_json: AsJson = False,
) -> None:
    """Execute a recorded run again from its record, without side effects, and show the first divergence.

    With --agent the agent itself is started again, and what it asks of others than its site and its model is asked.

    The exit code is 0 if it is identical, 1 if it differs or if bytes that it needs were erased.
    """
    import dataclasses

    from ..history.agent_replay import replay_agent
    from ..history.replay import replay_run
    from ..queries.loops import newest_loop

    if agent is None and advice is not Telling.TASK:
        raise typer.BadParameter("--advice says how the agent of --agent is told; add --agent or leave it out")
    with open_project() as house:
        loop = newest_loop(house.views(), run)
        if loop is not None:
            print_loop_replay(house, loop, as_json=as_json)
            return
        refuse_hidden_run(house.views(), run)
        if agent is None:
            found = replay_run(house.store, house.blobs, house.views, run, house.embeddings_of)
        else:
            found = replay_agent(house, read_settings(), run, named_agent(agent, advice))
    if as_json:
        emit_json(dataclasses.asdict(found))
    else:
        _print_replay(found)
    if found.outcome != "identical":
        raise typer.Exit(1)


def _print_replay(found: Replayed) -> None:
    from difflib import unified_diff

    if found.outcome == "erased":
        say(f"erased: {found.run} needs the blob {found.erased}, which was erased with its subject")
        return
    if found.divergence is None:
        number, kind = (found.pages, "page") if found.answers is None else (found.answers, "answer")
        over = f"{count_noun(found.steps, 'step')} over {count_noun(number, f'recorded {kind}')}"
        say(f"identical: {over}; {', '.join(found.compared)} are as recorded")
    else:
        say(f"different: {found.run} diverges first in {found.divergence.where}")
        expected, actual = found.divergence.expected, found.divergence.actual
        for line in unified_diff(expected, actual, fromfile="recorded", tofile="replayed", n=2, lineterm=""):
            say(line)
    for line in found.not_compared:
        say(f"not compared: {line}")
    for line in found.trusted:
        say(f"from the record alone: {line}")


for _command in (judges.grade, judges.judges, regrade.regrade):
    app.command()(_command)
app.command("abandon")(abandon_runs)
