"""`flywheel delegate`: have a manager and its workers iterate on a task, and go on with what was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from agents.delegation.autonomy import AutonomyLevel, autonomy_of, compliance, config_for
from agents.delegation.summary import in_words
from agents.edited_files import read_edited
from agents.executors.delegation.opening import MOST_TASK
from eventlog.events import LoopConfig

from ..queries.loops import LoopAnswer, LoopList, list_loops, result_files, show_loop
from .delegate_options import (
    BudgetOf,
    GraderOf,
    Level,
    ModelOf,
    NamespacesOf,
    OutputsOf,
    SummaryFile,
    ValidatorOf,
    Weaker,
    WorkerCommand,
    WorkerModel,
    ground_truth,
    loop_means,
    read_budget,
    read_namespaces,
    read_outputs,
)
from .loop_end import follow_loop, print_end, warn_of_unknown_validator, warn_without_sandbox
from .loop_replay import print_loop_replay
from .loop_view import LoopReporter
from .output import (
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    emit_json,
    none_of,
    open_project,
    print_facts,
    print_rows,
    say,
    say_more,
    table,
)
from .sources import Server, open_source, quote_name

if TYPE_CHECKING:
    from projections.delegation.loop_state import LoopState


app = typer.Typer(
    help="Delegation loops: run, resume, refine, answer, list, show, export, replay.", no_args_is_help=True
)

LoopName = Annotated[str, typer.Argument(metavar="RUN", help="The loop's name.")]


@app.command()
def run(  # noqa: PLR0917 each is an option
    task: Annotated[str, typer.Argument(help="What is to be done; @FILE reads it from a file.")],
    model: ModelOf = None,
    worker_model: WorkerModel = None,
    worker_command: WorkerCommand = None,
    grader: GraderOf = None,
    validator: ValidatorOf = None,
    budget: BudgetOf = None,
    autonomy: Annotated[
        Level, typer.Option(help="A1 iterates, A2 plans, A3 writes tools, A4 delegates on.")
    ] = Level.A4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every draw of the models.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Offer no skills and tools of earlier loops.")] = False,
    weaker_sandbox: Weaker = False,
    namespaces: NamespacesOf = None,
    summary: SummaryFile = None,
    output: OutputsOf = None,
    as_json: AsJson = False,
) -> None:
    """Iterate on a task until it is solved, the budget is spent, or nothing changes any more."""
    from ..controllers.delegation import LoopRequest, start_loop

    level: AutonomyLevel = autonomy.value
    asked = LoopConfig(
        budget=read_budget(budget), tools=read_namespaces(namespaces), completion=read_outputs(output or [])
    )
    config = config_for(level, asked)
    request = LoopRequest(_task(task), config, seed, reuse=not fresh)
    reporter, truth = LoopReporter(), ground_truth(grader, validator)
    with (
        open_project() as house,
        loop_means(house, model, worker_model, worker_command, truth, weaker=weaker_sandbox) as means,
    ):
        warn_without_sandbox(reporter, means)
        with reporter.show_live():
            state = start_loop(house, request, means, follow_loop(reporter, summary))
        print_end(house, state, as_json=as_json)


@app.command()
def resume(  # noqa: PLR0917 each is an option
    run: LoopName,
    model: ModelOf = None,
    worker_model: WorkerModel = None,
    worker_command: WorkerCommand = None,
    grader: GraderOf = None,
    validator: ValidatorOf = None,
    weaker_sandbox: Weaker = False,
    summary: SummaryFile = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a loop that was interrupted, where it was. It takes the options that the loop was started with."""
    from ..controllers.delegation import resume_loop

    reporter, truth = LoopReporter(), ground_truth(grader, validator)
    with (
        open_project() as house,
        loop_means(house, model, worker_model, worker_command, truth, weaker=weaker_sandbox) as means,
    ):
        warn_without_sandbox(reporter, means)
        warn_of_unknown_validator(reporter, house, run)
        with reporter.show_live():
            state = resume_loop(house, run, means, follow_loop(reporter, summary))
        print_end(house, state, as_json=as_json)


@app.command()
def refine(  # noqa: PLR0917 each is an option
    run: LoopName,
    rounds: Annotated[int, typer.Option(min=1, max=10, help="At most so many further loops.")] = 3,
    model: ModelOf = None,
    worker_model: WorkerModel = None,
    worker_command: WorkerCommand = None,
    grader: GraderOf = None,
    validator: ValidatorOf = None,
    weaker_sandbox: Weaker = False,
    as_json: AsJson = False,
) -> None:
    """Improve on the result of a loop that has ended, by further loops with half of what it spent each.

    Each is told the best result so far and what is wrong with it. The best one is named at the end.
    """
    from ..controllers.refining import refine_loop

    reporter, truth = LoopReporter(), ground_truth(grader, validator)
    with (
        open_project() as house,
        loop_means(house, model, worker_model, worker_command, truth, weaker=weaker_sandbox) as means,
    ):
        with reporter.show_live():
            found = refine_loop(house, run, means, rounds, follow_loop(reporter, None))
        rows = [(each.loop, each.status, in_words(each.confidence)) for each in found.rounds]
        if as_json:
            told = [{"loop": each.loop, "status": each.status, "confidence": each.confidence} for each in found.rounds]
            emit_json({"best": found.best.loop, "rounds": told, "why": found.why})
            return
        table(("loop", "status", "confidence"), rows)
        say(f"{found.why}; the best result is that of {found.best.loop}")
        print_end(house, found.best, as_json=False)


@app.command()
def answer(
    run: LoopName,
    answer: Annotated[str, typer.Argument(help="The answer to its question.")],
    as_json: AsJson = False,
) -> None:
    """Answer a loop that waits. `delegate resume` then goes on with it."""
    from ..controllers.delegation import answer_loop

    if not answer.strip() or len(answer) > 1_000:  # noqa: PLR2004 characters, as the event says
        raise typer.BadParameter(f"an answer of {len(answer.strip())} characters; expected 1 to 1000")
    with open_project() as house:
        state = answer_loop(house, run, answer)
    if as_json:
        emit_json({"loop": state.loop, "status": state.status, "question": state.question})
    else:
        say(f"{state.loop} has its answer; go on with `flywheel delegate resume {state.loop}`")


@app.command("list")
def list_(
    limit: Limit = SHOWN, after: After = None, as_of: AsOf = None, server: Server = None, as_json: AsJson = False
) -> None:
    """List loops by name: how far each is, and how it ended."""
    with open_source(server, as_of) as source:
        found, following = source.pages(
            LoopList,
            "loops",
            "/v1/loops",
            lambda _house, views: list_loops(views, after=after, limit=limit),
            after,
            limit,
        )
    rows: list[dict[str, Any]] = [msgspec.to_builtins(each) for each in found]
    shown = rows if as_json else [{**row, "confidence": in_words(row["confidence"])} for row in rows]
    columns = ("loop", "status", "iteration", "confidence", "task", "reason")
    empty = none_of("loops", "`flywheel delegate run` starts one", after)
    print_rows(shown, columns, as_json=as_json, empty=empty)
    say_more(following)


@app.command()
def show(run: LoopName, as_of: AsOf = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show one loop: its decisions, its confidence, its budget, its result."""
    path = f"/v1/loops/{quote_name(run)}"
    with open_source(server, as_of) as source:
        found = source.read(LoopAnswer, path, lambda house, views: show_loop(views, house.blobs, run))
    if as_json:
        emit_json(found)
        return
    state, spent = found.loop, found.budget.spent
    facts = [
        ("loop", state.loop),
        ("task", state.task_line),
        ("status", f"{state.status}{f': {state.reason}' if state.reason else ''}"),
        ("refines", state.refines),
        ("question", state.question),
        ("strategy", state.strategy),
        ("sandbox", state.sandbox),
        ("autonomy", _describe_autonomy(state)),
        (
            "spent",
            f"{spent.loops} loops, {spent.workers} workers, {spent.tokens} tokens, {spent.tool_calls} tool calls",
        ),
        ("tools", ", ".join(sorted(found.tools.tools))),
        ("files", None if found.result is None else ", ".join(found.result.get("files", ()))),
        ("result", None if found.result is None else str(found.result.get("result"))),
    ]
    print_facts([(name, value) for name, value in facts if value])
    say("")
    confidences = {each.iteration: in_words(each.confidence) for each in state.history}
    decided = [(e.iteration, e.kind, confidences.get(e.iteration), e.rationale or e.refusal) for e in state.decisions]
    table(("iteration", "decision", "confidence", "why"), decided, empty="no decision yet")


def _describe_autonomy(state: LoopState) -> str:
    """The level that a loop complies with, and the mechanisms that it leaves off."""
    config = state.loop_config()
    off = [name for name, is_on in compliance(config).items() if not is_on]
    return f"{autonomy_of(config)}{', without: ' + ', '.join(off) if off else ', every mechanism on'}"


@app.command()
def export(
    run: LoopName,
    folder: Annotated[Path, typer.Argument(help="Where to write the files; those of the same name are replaced.")],
    as_json: AsJson = False,
) -> None:
    """Write the files of an ended loop's result to a folder."""
    with open_project() as house:
        files = result_files(house.views(), house.blobs, run)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    if as_json:
        emit_json({"folder": str(folder), "files": list(files)})
    else:
        say(f"in {folder}: {', '.join(files)}")


@app.command()
def replay(run: LoopName, as_json: AsJson = False) -> None:
    """Make every prompt of a loop again from the log, and read every answer again, without a model.

    The exit code is 0 if all are as recorded, 1 if one differs.
    """
    with open_project() as house:
        print_loop_replay(house, run, as_json=as_json)


def _task(given: str) -> str:
    if not given.startswith("@"):
        return given
    return read_edited(Path(given[1:]), 4 * MOST_TASK)
