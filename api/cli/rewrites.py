"""`flywheel rewrites`: what recovery proposed, what became of it, and on what evidence."""

from __future__ import annotations

from typing import Annotated

import typer

from .output import SHOWN, After, AsJson, AsOf, Limit, emit_json, print_rows, say_more
from .pieces import Status, piece_record, piece_rows, plain_report, plot_pieces, print_record, why_empty
from .plots import PlotFile
from .sources import Server

LISTED = ("rewrite", "status", "wins", "losses", "trials", "U", "V", "controls_passed", "next_look", "step", "does")

app = typer.Typer(help="Rewrites: list, show.", no_args_is_help=True)


@app.command("list")
def list_(
    status: Status = None,
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """List rewrites by id, with their wins and losses, and the evidence that decides next.

    --plot draws how much each helps.
    """
    rows, following = piece_rows("rewrite", status, as_of, after, limit, server)
    print_rows(rows, LISTED, as_json=as_json, empty=why_empty("rewrites", status, after))
    say_more(following)
    plot_pieces("rewrite", [row["rewrite"] for row in rows if row["trials"]], as_of, server, plot)


@app.command()
def show(
    rewrite: Annotated[str, typer.Argument(help="The rewrite's id.")],
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show one rewrite: why it has its status, how the status changed, and every trial of it."""
    found = piece_record("rewrite", rewrite, as_of, server)
    if as_json:
        emit_json({**plain_report(found.report), "history": found.history, "trials": found.trials})
    else:
        print_record(found, {})
