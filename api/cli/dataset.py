"""`flywheel dataset`: training rows, selected from the log by a query and a position."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from eventlog.events import SftQuery
from projections.checkpoints import CHECKPOINTS, DatasetState

from .. import datasets
from ..reading import read_position
from .output import AsJson, AsOf, bar, emit_json, erased_as_json, facts, listing, opened, say

app = typer.Typer(help="Datasets: build, list, show, export, verify.", no_args_is_help=True)
Digest = Annotated[str, typer.Argument(help="The dataset's digest, or its first eight characters or more.")]


@app.command()
def build(
    min_score: Annotated[float, typer.Option(min=0.0, max=1.0, help="Runs at or above this oracle score.")] = 1.0,
    best_of_group: Annotated[bool, typer.Option("--best-of-group", help="Only the best run of each group.")] = False,
    environment: Annotated[str | None, typer.Option(help="Only runs on this site.")] = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Freeze an sft dataset: rejection sampling over the runs in the log. Benchmark runs never enter."""
    query = SftQuery(min_score=round(min_score * 1_000_000), best_of_group=best_of_group, environment=environment)
    with opened() as house, bar("selecting runs", None):
        built = datasets.build(house.store, house.blobs, house.views(read_position(house.store, as_of)), query)
        digest = datasets.freeze(house.store, built, "operator")
        row = _row(datasets.find(house.views(), digest))
    _show(row, as_json=as_json)


@app.command("list")
def list_(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List datasets."""
    with opened() as house:
        views = house.views(read_position(house.store, as_of))
        rows = [_row(state) for state in views.find(CHECKPOINTS, "dataset/").values()]
    columns = ("dataset", "kind", "rows", "groups", "upto")
    listing(rows, columns, as_json=as_json, empty="no datasets; `flywheel dataset build` freezes one")


@app.command()
def show(dataset: Digest, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """Show one dataset: query, position, size, what was refused and why."""
    with opened() as house:
        row = _row(datasets.find(house.views(read_position(house.store, as_of)), dataset))
    _show(row, as_json=as_json)


@app.command()
def export(
    dataset: Digest,
    file: Annotated[Path, typer.Argument(help="Where to write: .parquet, .ndjson or .arrow.")],
) -> None:
    """Write a dataset's rows to a file."""
    writers = {".parquet": "write_parquet", ".ndjson": "write_ndjson", ".arrow": "write_ipc_stream"}
    if file.suffix not in writers:
        raise typer.BadParameter(f"{file.name!r} has the ending {file.suffix!r}; expected {', '.join(writers)}")
    if not file.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {file.parent}; expected one that exists")
    with opened() as house, bar("making the rows", None):
        frame = datasets.load(house.store, house.blobs, house.views, dataset).rows
    partial = file.with_name(file.name + ".partial")
    getattr(frame, writers[file.suffix])(partial)
    partial.replace(file)
    say(f"{frame.height} rows are in {file}")


@app.command()
def verify(dataset: Digest, as_json: AsJson = False) -> None:
    """Make the dataset's rows again from the log and compare digests: equal, different, or erased.

    Erased: rows need bytes whose subject was erased. Only equal is exit code 0.
    """
    with opened() as house, bar("making the rows", None), erased_as_json({"dataset": dataset}, as_json=as_json):
        built = datasets.load(house.store, house.blobs, house.views, dataset)
    if as_json:
        same = {"dataset": built.digest, "outcome": "equal", "equal": True}
        emit_json({**same, "rows": built.rows.height, "upto": built.upto})
    else:
        say(f"equal: {built.rows.height} rows from positions up to {built.upto} give {built.digest}")


def _row(state: DatasetState) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(state)
    return {**row, "kind": state.query.get("kind")}


def _show(row: dict[str, Any], *, as_json: bool) -> None:
    emit_json(row) if as_json else facts(list(row.items()))
