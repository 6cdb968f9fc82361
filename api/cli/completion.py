"""`flywheel completion`: the script by which a shell completes commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # it has no other public place

VARIABLE = "_FLYWHEEL_COMPLETE"


class CompletedShell(StrEnum):
    """A shell that can be told how to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[CompletedShell, typer.Argument(help="The shell that is to complete.")]) -> None:
    """Print the script by which a shell completes commands and options.

    bash: `eval "$(flywheel completion bash)"` in ~/.bashrc. zsh: the same in ~/.zshrc, after `compinit`. fish:
    `flywheel completion fish > ~/.config/fish/completions/flywheel.fish`.
    """
    typer.echo(get_completion_script(prog_name="flywheel", complete_var=VARIABLE, shell=shell.value))
