"""`flywheel artifact`: weights and memory under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from ..evaluations.artifacts import ArtifactAnswer, show_artifact
from .output import AsJson, emit_json, erased_as_json, say, table
from .sources import Server, open_source, quote_name

app = typer.Typer(help="Artifacts: show.", no_args_is_help=True)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Such as base@0 or base@212.")],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show what an artifact remembers."""
    path = f"/v1/artifacts/{quote_name(name)}"
    with open_source(server) as source, erased_as_json({"name": name}, as_json=as_json):
        found = source.read(ArtifactAnswer, path, lambda house, views: show_artifact(house, views, name))
    if as_json:
        emit_json(found)
        return
    memory = found.artifact.memory
    say(f"{found.name}: memory {memory.digest}, folds {memory.folds}")
    rows = [(piece.piece, piece.kind, piece.wins, piece.step, piece.change) for piece in found.pieces]
    table(("piece", "kind", "wins", "step", "change"), rows, empty="it remembers nothing")
