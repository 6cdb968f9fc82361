"""`flywheel outcomes`: how the runs of each sweep went, counted."""

from __future__ import annotations

from typing import Annotated

import typer

from gate.figures import decimal, dollars
from projections.frames.outcomes import Cell

from ..queries.outcomes import OutcomePage, OutcomeRow, list_outcomes, read_place
from ..queries.success import success_curves
from .output import ERR, SHOWN, After, AsJson, AsOf, Limit, emit_json, say_more, table
from .plots import PlotFile, draw_success
from .sources import LogSource, Server, open_source, refuse_options

_COLUMNS = ("sweep", "template", "treated", "runs", "missing", "graded", "passed", "steps", "value", "cost")


def outcomes(
    sweep: Annotated[str | None, typer.Option(help="Only this sweep or evaluation.")] = None,
    template: Annotated[str | None, typer.Option(help="Only this template.")] = None,
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Count how runs went: by sweep, by template, with a candidate (treated) or without.

    Passed counts graded runs only. Steps, value and cost are sums; where some values are unknown, the sum says how many
    runs it covers. Of an evaluation whose benchmark can still judge, all but the missing runs is sealed. Runs that were
    withdrawn since are counted too. --plot draws how often runs passed over the last 4,000 positions of the log.
    """
    place = _place(after)
    refuse_options(server, {"--plot": plot}, "it is drawn where the log is")
    if plot is not None and (sweep, template) != (None, None):
        raise typer.BadParameter("--plot draws the runs of every sweep and template; leave --sweep and --template out")
    with open_source(server, as_of) as source:
        if plot is not None and isinstance(source, LogSource):
            draw_success(success_curves(source.house.store, source.views), plot)
        rows, following = source.pages(
            OutcomePage,
            "outcomes",
            "/v1/outcomes",
            lambda house, views: list_outcomes(
                house.frames, views, sweep=sweep, template=template, after=place, limit=limit
            ),
            after,
            limit,
            sweep=sweep,
            template=template,
        )
    say_more(following)
    if plot is not None:
        ERR.print(f"drawn: {plot}", markup=False, soft_wrap=True)
    if as_json:
        emit_json(rows)
        return
    is_filtered = (sweep, template, after) != (None, None, None)
    empty = "no such runs" if is_filtered else "no runs yet; `flywheel run` makes some"
    table(_COLUMNS, [[_cell(row, column) for column in _COLUMNS] for row in rows], empty=empty)


def _place(given: str | None) -> Cell | None:
    try:
        return None if given is None else read_place(given)
    except ValueError as error:
        raise typer.BadParameter(f"{given!r} is no place in the list; expected what the page before named") from error


def _cell(row: OutcomeRow, column: str) -> object:
    """A cell of the table."""
    match column:
        case "treated":
            return {True: "yes", False: "", None: "?"}[row.is_treated]
        case "value":
            return "sealed" if row.value is None else _sum(decimal(row.value), row.valued, row.graded)
        case "cost":
            return "sealed" if row.cost is None else _sum(dollars(row.cost), row.priced, row.graded)
        case "sweep" | "template":
            return "?" if getattr(row, column) is None else getattr(row, column)
        case _:
            count = getattr(row, column)
            return "sealed" if count is None else count


def _sum(total: str, known: int | None, graded: int | None) -> str:
    if not known:
        return ""
    return total if known == graded else f"{total} of {known} runs"
