"""`flywheel artifact`: weights and memory under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from ..evaluations.artifacts import list_pieces, resolve_artifact
from .output import AsJson, emit_json, erased_as_json, open_project, say, table

app = typer.Typer(help="Artifacts: show.", no_args_is_help=True)


@app.command()
def show(name: Annotated[str, typer.Argument(help="Such as base@0 or base@212.")], as_json: AsJson = False) -> None:
    """Show what an artifact remembers."""
    with open_project() as house, erased_as_json({"name": name}, as_json=as_json):
        artifact, memory = resolve_artifact(house, name)
        pieces = list_pieces(house, memory)
    if as_json:
        emit_json({"name": str(artifact), "artifact": artifact.model_dump(mode="json"), "pieces": pieces})
        return
    say(f"{artifact}: memory {artifact.memory.digest}, folds {artifact.memory.folds}")
    rows = [(piece["piece"], piece["kind"], piece["wins"], piece["step"], piece["change"]) for piece in pieces]
    table(("piece", "kind", "wins", "step", "change"), rows, empty="it remembers nothing")
