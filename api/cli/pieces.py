"""`flywheel hints`, `exemplars`, `curriculum`, `recipes` and `instructions`: what was learned, and on what evidence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from eventlog.events import PieceKind
from gate.figures import decimal
from projections.engine.views import PostgresViews
from projections.memories import FOLDS, LOOSE

from ..house import House
from ..positions import moment_of
from ..queries.piece_reports import StatusRow, TrialRow, Uplift, uplift
from ..queries.pieces import PieceRecord, PieceReport
from ..queries.reports import list_reports, record_kind, reports_kind, show_record
from .in_words import piece_facts
from .output import (
    ERR,
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    emit_json,
    one_of,
    print_facts,
    print_rows,
    say,
    say_more,
    table,
)
from .plots import PlotFile, draw_uplifts, picture_kind
from .sources import Server, open_source, quote_name

STATUSES: Final = ("candidate", "promoted", "demoted", "retired", "quarantined", "cold")
Status = Annotated[
    str | None,
    typer.Option(
        callback=one_of(STATUSES, "status of a piece"), help=f"One of {', '.join(STATUSES)} (promoted and idle)."
    ),
]
MOST_DRAWN: Final = 40
LISTED: Final = ("piece", "status", "worth", "wins", "losses", "trials", "U", "V", "next_look", "step", "says")


def group_of(kind: PieceKind) -> typer.Typer:
    """The commands of one kind of piece."""
    name = LOOSE[kind].name.replace("_", " ")
    app = typer.Typer(help=f"{name.capitalize()}: list, show.", no_args_is_help=True)

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
        """List pieces: what each says, its record, and the evidence that decides next.

        Those of one page come the most valuable first; pages are in order of id. --plot draws how much each helps.
        """
        page, following = piece_rows(kind, status, as_of, after, limit, server)
        rows = sorted(page, key=lambda row: (-row["worth"], row["piece"]))
        told = rows if as_json else [{**row, "worth": decimal(row["worth"])} for row in rows]
        print_rows(told, LISTED, as_json=as_json, empty=why_empty(name, status, after))
        say_more(following)
        plot_pieces(kind, [row["piece"] for row in rows if row["trials"]], as_of, server, plot)

    @app.command()
    def show(
        piece: Annotated[str, typer.Argument(help="Its id.")],
        as_of: AsOf = None,
        server: Server = None,
        as_json: AsJson = False,
    ) -> None:
        """Show one piece: what it says, why it has its status, how much it helps, and every trial of it."""
        found = piece_record(kind, piece, as_of, server)
        if as_json:
            emit_json(facts_of_record(found))
        else:
            print_record(found, uplifts_of(found))

    return app


def plot_pieces(
    kind: PieceKind, pieces: Sequence[str], as_of: str | None, server: str | None, plot: Path | None
) -> None:
    """Draw how much each of these pieces helps, at most MOST_DRAWN that have controls. None: draw nothing."""
    if plot is None:
        return
    picture_kind(plot)
    found = ((piece, uplift(piece_record(kind, piece, as_of, server).trials)) for piece in pieces)
    draw_uplifts(list(islice(((piece, each) for piece, each in found if each is not None), MOST_DRAWN)), plot)
    ERR.print(f"drawn: {plot}", markup=False, soft_wrap=True)


def why_empty(name: str, status: str | None, after: str | None) -> str:
    """Why a list of pieces is empty: none has the status asked for, none follows, or there are none."""
    if after is not None:
        return f"no {name}{'' if status is None else f' with the status {status}'} after {after}"
    return f"no {name} " + (
        "yet; `flywheel run` proposes some if runs fail" if status is None else f"with the status {status}"
    )


def piece_rows(
    kind: PieceKind, status: str | None, as_of: str | None, after: str | None, limit: int, server: str | None = None
) -> tuple[list[dict[str, Any]], str | None]:
    """A page of the pieces of a kind that have a status (None: any), as programs get them, and where it goes on."""

    def read_log(house: House, views: PostgresViews) -> Any:
        now = moment_of(house.store, as_of, views.upto)
        return list_reports(house.blobs, views, kind, now, status=status, after=after, limit=limit)

    path = f"/v1/reports/{FOLDS[kind].name}"
    with open_source(server, as_of) as source:
        page, following = source.pages(reports_kind(kind), "reports", path, read_log, after, limit, status=status)
    return [plain_report(report) for report in page], following


def piece_record(kind: PieceKind, piece: str, as_of: str | None, server: str | None = None) -> PieceRecord[Any]:
    """Everything that is known of one piece. Raises Unknown."""

    def read_log(house: House, views: PostgresViews) -> Any:
        return show_record(house.store, house.blobs, views, kind, piece, moment_of(house.store, as_of, views.upto))

    path = f"/v1/reports/{FOLDS[kind].name}/{quote_name(piece)}"
    with open_source(server, as_of) as source:
        found: PieceRecord[Any] = source.read(record_kind(kind), path, read_log).record
    return found


def plain_report(report: PieceReport[Any]) -> dict[str, Any]:
    """A report as one flat object."""
    parts = (report.state, report.summary, report.content)
    return {key: value for part in parts if part is not None for key, value in msgspec.to_builtins(part).items()}


def print_record(found: PieceRecord[Any], more: dict[str, str]) -> None:
    """Print a piece for people: its facts and a few `more`, then its history and its trials as tables."""
    print_facts([*piece_facts(found.report), *more.items()])
    for kind, rows in ((StatusRow, found.history), (TrialRow, found.trials)):
        say("")
        table(kind.__struct_encode_fields__, [msgspec.structs.astuple(row) for row in rows])


def facts_of_record(found: PieceRecord[Any]) -> dict[str, Any]:
    """A record with its uplifts as one object for programs."""
    helps = {"uplift": uplift(found.trials), "uplift_without": uplift(found.trials, "withheld")}
    return {**plain_report(found.report), **helps, "history": found.history, "trials": found.trials}


def uplifts_of(found: PieceRecord[Any]) -> dict[str, str]:
    """The uplifts of a piece with it and without it, in words."""
    return {
        "uplift": describe_uplift(uplift(found.trials)),
        "uplift_without": describe_uplift(uplift(found.trials, "withheld")),
    }


def describe_uplift(found: Uplift | None) -> str:
    """An uplift in percentage points, with its interval."""
    if found is None:
        return "no trial with controls"
    mean, low, high = (each / 10_000 for each in (found.mean, found.low, found.high))
    over = f"from {found.trials} trials at {found.seeds} seeds"
    return f"{mean:+.1f} points, 95 % interval {low:+.1f} to {high:+.1f}, {over}"


hints, exemplars, curriculum = group_of("hint"), group_of("exemplar"), group_of("snippet")
instructions = group_of("instruction")
