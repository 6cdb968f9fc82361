"""`flywheel import`: traces and chat logs of other tools, recorded as runs from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gate.figures import count_noun

from ..ingest.files import import_files
from .output import AsJson, emit_json, open_project, say, spinner


def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="OTLP JSON, or a JSON object a line.", exists=True, dir_okay=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Record traces (OTLP in JSON) and chat logs as runs from outside. A second import changes nothing.

    A chat log has a line `{"messages": [...], "reward": 0 to 1, "id": "..."}` for each run; all but messages may be
    left out.
    """
    with open_project() as house, spinner("importing"):
        found = import_files(house, files)
    if as_json:
        emit_json({**vars(found), "runs": sorted(found.runs), "why": list(found.why)})
    else:
        recorded = f"{count_noun(found.chats, 'chat')} and {count_noun(found.spans, 'span')} recorded"
        say(f"{recorded}, {found.known_chats} and {found.known_spans} known; {count_noun(len(found.runs), 'run')}")
        for why in found.why:
            say(f"not recorded: {why}")
    if found.refused_spans:
        raise typer.Exit(1)
