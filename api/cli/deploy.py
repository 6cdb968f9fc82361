"""`flywheel deploy`: write the files with which another platform serves a base and its challengers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..serving.targets.generation import DeployTarget, TargetName, write_target
from .output import say


def deploy(
    target: Annotated[TargetName, typer.Argument(help="modal: requests may name adapters. baseten: one is fixed.")],
    model: Annotated[Path, typer.Argument(help="The base as one GGUF file (`flywheel base export`).")],
    out: Annotated[Path, typer.Argument(help="The folder to write, which must not exist.")],
    *,
    name: Annotated[str, typer.Option(help="The deployment's name.")] = "flywheel",
    volume: Annotated[str, typer.Option(help="The volume that holds models and adapters.")] = "flywheel-models",
    context: Annotated[int, typer.Option(min=256, max=1_000_000, help="Tokens of the context.")] = 8192,
    merged_only: Annotated[
        bool, typer.Option("--merged-only", help="Its adapters have no GGUF form: challengers are merged models.")
    ] = False,
) -> None:
    """Write a Modal app or a Truss that serves the model. Nothing is uploaded."""
    wanted = DeployTarget(target, model, name, volume, context=context, takes_adapters=not merged_only)
    say(f"{target}: {write_target(wanted, out)}")
