"""`flywheel runs abandon`: end the runs of agents outside that nobody goes on with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from gate.figures import count_noun

from .output import AsJson, confirm, emit_json, open_project, print_rows, say

ACTOR = "operator"


def abandon_runs(
    hours: Annotated[float, typer.Option(min=0, help="Hours without an event after which a run is given up.")] = 24,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show which runs, and stop there.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Record runs of agents outside (`ext-...`) as missing that have no end, no reward, and no event for some hours.

    A missing run has no reward, which is not a reward of zero. It takes no more calls and no reward.
    """
    from ..history.abandoned import end_abandoned, find_abandoned

    with open_project() as house:
        found = list(find_abandoned(house, house.views(), datetime.now(UTC) - timedelta(hours=hours)))
        ended: tuple[str, ...] = ()
        rows = [
            {"run": each.run, "calls": each.calls, "last_event": each.last.isoformat("T", "seconds")} for each in found
        ]
        if not as_json:
            print_rows(rows, ("run", "calls", "last_event"), as_json=False, empty="no run was abandoned")
        if found and not dry_run:
            confirm(f"Record {count_noun(len(found), 'run')} as missing?", yes=yes)
            ended = end_abandoned(house, found, ACTOR)
    if as_json:
        emit_json({"abandoned": rows, "missing": ended})
    elif ended:
        say(f"{count_noun(len(ended), 'run')} recorded as missing")
