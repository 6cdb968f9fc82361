"""`flywheel rewrites`: what recovery proposed, what became of it, and on what evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from projections.engine.projection import Change
from projections.rewrites import REWRITES, RewriteState
from projections.taint import withdrawals

from ..errors import Unknown
from ..history.piece_report import LISTED, TRIALS, report_piece, trials_of
from ..positions import read_position, time_of
from .output import AsJson, AsOf, emit_json, open_project, print_facts, print_rows, say, table

app = typer.Typer(help="Rewrites: list, show.", no_args_is_help=True)


@app.command("list")
def list_(
    status: Annotated[
        str | None,
        typer.Option(help="candidate, promoted, demoted, retired, quarantined, or cold (promoted and idle)."),
    ] = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """List rewrites with their wins and losses, and the evidence that decides next."""
    with open_project() as house:
        views = house.views(read_position(house.store, as_of))
        now = datetime.now(UTC) if as_of is None else time_of(house.store, views.upto)
        rows = [report_piece(state, now) for state in views.find(REWRITES).values()]
    rows = [row for row in rows if status in {None, row["status"]}]
    print_rows(rows, LISTED, as_json=as_json, empty="no rewrites; `flywheel run` proposes some where runs fail")


@app.command()
def show(
    rewrite: Annotated[str, typer.Argument(help="The rewrite's id.")], as_of: AsOf = None, as_json: AsJson = False
) -> None:
    """Show one rewrite: why it is what it is, how its status turned, and every trial of it."""
    with open_project() as house:
        views = house.views(read_position(house.store, as_of))
        now = datetime.now(UTC) if as_of is None else time_of(house.store, views.upto)
        state = views.get(REWRITES, rewrite)
        if state is None:
            raise Unknown(what="rewrite", actual=rewrite, way_out="`flywheel rewrites list` names them.")
        changes = views.history(REWRITES, rewrite)
        recorded = house.store.read(stream=f"rewrite/{rewrite}", upto=views.upto)
        trials = trials_of(recorded, changes, withdrawals(views))
    history = [_history_row(change) for change in changes]
    row = report_piece(state, now)
    if as_json:
        emit_json({**row, "history": history, "trials": trials})
        return
    print_facts(list(row.items()))
    say("")
    table(("since", "status", "wins", "losses"), [tuple(item.values()) for item in history])
    say("")
    table(TRIALS, [tuple(item.values()) for item in trials])


def _history_row(change: Change[RewriteState]) -> dict[str, object]:
    """One line of a history; nothing is left of a rewrite whose runs were all withdrawn."""
    if change.state is None:
        return {"since": change.since, "status": "withdrawn", "wins": 0, "losses": 0}
    state = change.state
    return {"since": change.since, "status": state.status, "wins": state.wins, "losses": state.losses}
