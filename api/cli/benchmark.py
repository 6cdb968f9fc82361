"""`flywheel benchmark`: the frozen tasks and seeds that the gate judges on."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from projections.benchmarks import BENCHMARKS, BenchmarkState

from ..errors import Unknown
from ..reading import read_position
from .output import AsJson, AsOf, emit_json, listing, opened, say

app = typer.Typer(help="Benchmarks: list, show.", no_args_is_help=True)


def _row(state: BenchmarkState) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(state)
    sealed = sum(task["is_sealed"] for task in state.tasks)
    return {**row, "sealed": sealed, "visible": len(state.tasks) - sealed}


@app.command("list")
def list_(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List benchmarks."""
    with opened() as house:
        views = house.views(read_position(house.store, as_of))
        rows = [_row(state) for state in views.find(BENCHMARKS).values()]
    columns = ("benchmark", "environment", "sealed", "visible", "repeats", "digest")
    listing(rows, columns, as_json=as_json, empty="no benchmark yet; `flywheel run` freezes one")


@app.command()
def show(
    benchmark: Annotated[str, typer.Argument(help="The benchmark's name.")],
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Show one benchmark's templates and instances."""
    with opened() as house:
        state = house.views(read_position(house.store, as_of)).get(BENCHMARKS, benchmark)
    if state is None:
        raise Unknown(what="benchmark", actual=benchmark, way_out="`flywheel benchmark list` names them.")
    if as_json:
        emit_json(_row(state))
        return
    say(f"{state.benchmark} on {state.environment}, {state.repeats} repeats, digest {state.digest}")
    for template in state.templates:
        say(f"\n{template['template_id']}: {template['instruction']}")
        own = [task for task in state.tasks if task["template"] == template["template_id"]]
        for is_sealed, name in ((True, "sealed"), (False, "visible")):
            seeds = ", ".join(str(task["env_seed"]) for task in own if task["is_sealed"] is is_sealed)
            say(f"  {name} seeds: {seeds or 'none'}")
