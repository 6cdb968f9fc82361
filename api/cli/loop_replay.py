"""The outcome of a delegation loop's replay, as `flywheel delegate replay` and `flywheel runs replay` print it."""

from __future__ import annotations

import typer

from ..house import House
from .output import emit_json, say


def print_loop_replay(house: House, loop: str, *, as_json: bool) -> None:
    """Replay a loop without a model and print what was found. Exits with 1 if a decision differs. Raises RunSealed."""
    from agents.executors.delegation.replay import replay_loop

    from ..queries.loops import refuse_hidden_loop

    refuse_hidden_loop(house.views(), loop)
    found = replay_loop(house.store, house.blobs, loop)
    if as_json:
        emit_json(found)
    elif found.divergence is None and found.reworded:
        say(
            f"the wording of prompts changed since: {found.reworded} of {found.decisions} prompts of {found.loop} are "
            "worded otherwise now; all its answers are read as recorded"
        )
    elif found.divergence is None:
        say(f"identical: {found.decisions} decisions of {found.loop} are as recorded")
    else:
        say(f"different: {found.loop} diverges first in: {found.divergence}")
    if found.divergence is not None:
        raise typer.Exit(1)
