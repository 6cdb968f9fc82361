"""What `flywheel delegate` says while a loop runs and at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agents.delegation.summary import in_words
from projections.delegation.loops import LOOPS

from ..queries.loops import show_loop
from .loop_view import LoopReporter
from .output import emit_json, say

if TYPE_CHECKING:
    from agents.executors.delegation.loop import LoopMeans
    from projections.delegation.loop_state import LoopState

    from ..house import House


def follow_loop(reporter: LoopReporter, file: Path | None) -> Any:
    """What is done after each step of a loop: the view is updated, and the rolling summary is written to a file."""
    from agents.delegation.view import summary_of

    if file is not None and not file.parent.is_dir():
        raise typer.BadParameter(f"--summary {file}: there is no folder {file.parent}; expected one that exists")

    def watch(journal: Any) -> None:
        reporter.watch(journal)
        if file is not None and journal.state.parent is None:
            file.write_text(summary_of(journal.state, journal.state.loop_config()), "utf-8")

    return watch


def warn_without_sandbox(reporter: LoopReporter, means: LoopMeans) -> None:
    """Say that tools are refused, or run in a weaker sandbox."""
    if means.sandbox.kind == "none":
        reporter.say("tools are refused: bubblewrap is not installed, and --weaker-sandbox was not given")
    elif means.sandbox.kind == "namespaces":
        reporter.say("tools run in a weaker sandbox: namespaces and seccomp, without bubblewrap; they can read files")


def warn_of_unknown_validator(reporter: LoopReporter, house: House, loop: str) -> None:
    """Say that nothing can tell which validator a loop of an older log had."""
    state = house.views().get(LOOPS, loop)
    if state is not None and state.is_open and not state.commands_known:
        reporter.say(
            "this loop was opened before validators were recorded: bring the --validator that it was started with, "
            "or none if it had none; it is taken as it is brought"
        )


def print_end(house: House, state: LoopState, *, as_json: bool) -> None:
    """Print how a loop ended, or what it asks."""
    if as_json:
        emit_json(show_loop(house.views(), house.blobs, state.loop))
        return
    if state.status == "waiting":
        say(f"{state.loop} asks: {state.question}")
        say(f"Answer with `flywheel delegate answer {state.loop} TEXT`, then `flywheel delegate resume {state.loop}`.")
        return
    found = show_loop(house.views(), house.blobs, state.loop)
    confidence = in_words(state.confidence)
    say(f"{state.loop}: {state.status} after {state.iteration} iterations, confidence {confidence} ({state.reason})")
    if found.result is not None and found.result.get("result"):
        for name, value in found.result["result"].items():
            say(f"  {name}: {value}")
    if found.result is not None and found.result.get("files"):
        files = ", ".join(found.result["files"])
        say(f"  files: {files}; write them with `flywheel delegate export {state.loop} FOLDER`")
