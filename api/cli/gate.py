"""`flywheel gate`: judge a challenger, and explain or recompute what was judged."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from gate.explain import explain as explained
from projections.benchmarks import BENCHMARKS
from projections.verdicts import VERDICTS, VerdictState

from .. import artifacts
from ..admitting import admitting, see_admission
from ..decide import Course, benchmark_name
from ..errors import Unknown, VerdictDiffers
from ..evaluate import challenge, judged, play_and_settle
from ..exclusive import only_controller
from ..house import House
from ..reading import read_position
from ..sites import placed_at
from .output import ERR, AsJson, AsOf, TerminalReporter, emit_json, facts, listing, opened, say

app = typer.Typer(help="The gate: run, list, explain, verify.", no_args_is_help=True)
EXIT_CODES = {"promote": 0, "hold": 2, "void": 3}
Evaluation = Annotated[str, typer.Argument(help="The evaluation, such as eval-1.")]


@app.command("run")
def run_(
    challenger: Annotated[str, typer.Option(help="The artifact to judge, such as base@212.")],
    site: Annotated[str, typer.Option(help="The site whose benchmark is played.")] = "marketplace",
    max_parallel: Annotated[int, typer.Option(min=1, max=64, help="Runs side by side.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Play champion and challenger on the benchmark and judge. Exit code 0 promote, 2 hold, 3 void."""
    with opened() as house:
        chosen, memory = artifacts.challenger(house, challenger)
        if chosen.memory.without:
            ERR.print(f"left out, because it is quarantined: {', '.join(chosen.memory.without)}")
        if benchmark_name(site) not in house.views().find(BENCHMARKS):
            raise Unknown(what="benchmark", actual=benchmark_name(site), way_out="`flywheel run` freezes it.")
        house.blobs.put([memory])
        with (
            only_controller(house.engine, site),
            placed_at(house, site) as placed,
        ):
            reporter, client = TerminalReporter(), placed.environment
            see_admission(house, client, site, admitting(house, placed, reporter))
            evaluation = challenge(house, site, chosen, Course().rules)
            play_and_settle(house, client, evaluation, Course(max_parallel=max_parallel), reporter)
        state = _found(house, evaluation)
    _show(state, as_json=as_json)
    raise typer.Exit(EXIT_CODES[state.decision or "void"])


@app.command("list")
def list_(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List evaluations and their verdicts."""
    with opened() as house:
        views = house.views(read_position(house.store, as_of))
        rows = [_row(state) for state in views.find(VERDICTS).values()]
    columns = ("evaluation", "decision", "champion_name", "challenger_name", "benchmark", "opened_since")
    listing(rows, columns, as_json=as_json, empty="no evaluations yet; `flywheel run` opens one")


@app.command("explain")
def explain_(evaluation: Evaluation, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """Print a verdict with every number that decided it."""
    with opened() as house:
        state = _found(house, evaluation, as_of)
    _show(state, as_json=as_json)


@app.command()
def verify(evaluation: Evaluation, as_json: AsJson = False) -> None:
    """Judge again from the log and compare the verdict byte for byte."""
    with opened() as house:
        state = _found(house, evaluation)
        recorded = state.reached()
        if recorded is None:
            raise Unknown(
                what="verdict", actual=evaluation, way_out="It has not been reached; `flywheel run` goes on with it."
            )
        again = judged(house, evaluation)
    ours, theirs = again.model_dump_json(), recorded.model_dump_json()
    if ours != theirs:
        raise VerdictDiffers(evaluation=evaluation, actual=ours, expected=theirs)
    if as_json:
        emit_json({"evaluation": evaluation, "equal": True, "decision": again.decision})
    else:
        say(f"equal: {evaluation} recomputes to the same {len(ours)} bytes: {again.decision}")


def _found(house: House, evaluation: str, as_of: str | None = None) -> VerdictState:
    state = house.views(read_position(house.store, as_of)).get(VERDICTS, evaluation)
    if state is None:
        raise Unknown(what="evaluation", actual=evaluation, way_out="`flywheel gate list` names them.")
    return state


def _row(state: VerdictState) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(state)
    champion, challenger = state.artifacts()
    return {**row, "champion_name": str(champion), "challenger_name": str(challenger)}


def _show(state: VerdictState, *, as_json: bool) -> None:
    verdict = state.reached()
    if as_json:
        emit_json(_row(state))
    elif verdict is None:
        say(f"{state.evaluation} has no verdict yet; `flywheel run` goes on with it")
    else:
        facts(explained(verdict), title=state.evaluation)
