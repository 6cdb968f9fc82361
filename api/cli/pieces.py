"""`flywheel hints`, `exemplars`, `curriculum`, `recipes`: what was learned of each kind, and on what evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from agents.learning.memory import content_reader
from agents.learning.occasions import text_and_change
from eventlog.events import PieceKind
from projections.engine.projection import Change, Fold
from projections.memories import LOOSE
from projections.pieces import PieceState
from projections.taint import withdrawals

from ..errors import Unknown
from ..history.piece_report import TRIALS, report_piece, trials_of, uplift
from ..house import House
from ..positions import read_position, time_of
from ..queries.changes import describe_change
from .output import AsJson, AsOf, emit_json, open_project, print_facts, print_rows, say, table

LISTED: Final = ("piece", "status", "worth", "wins", "losses", "trials", "U", "V", "next_look", "step", "says")
STATUS_HELP: Final = "candidate, promoted, demoted, retired, quarantined, or cold (promoted and idle)."


def group_of(kind: PieceKind) -> typer.Typer:
    """The commands of one kind of piece."""
    fold = LOOSE[kind]
    app = typer.Typer(help=f"{fold.name.capitalize()}: list, show.", no_args_is_help=True)

    @app.command("list")
    def list_(
        status: Annotated[str | None, typer.Option(help=STATUS_HELP)] = None,
        as_of: AsOf = None,
        as_json: AsJson = False,
    ) -> None:
        """List pieces, those of most worth first: what each says, its record, and the evidence that decides next."""
        with open_project() as house:
            views = house.views(read_position(house.store, as_of))
            now = datetime.now(UTC) if as_of is None else time_of(house.store, views.upto)
            rows = [
                {**report_piece(state, now), **_describe_content(house, state)} for state in views.find(fold).values()
            ]
        rows = sorted((row for row in rows if status in {None, row["status"]}), key=_most_worth)
        print_rows(rows, LISTED, as_json=as_json, empty=f"no {fold.name}")

    @app.command()
    def show(
        piece: Annotated[str, typer.Argument(help="Its id.")], as_of: AsOf = None, as_json: AsJson = False
    ) -> None:
        """Show one piece: what it says, why it is what it is, how much it helps, and every trial of it."""
        _show(kind, fold, piece, as_of, as_json=as_json)

    return app


def _most_worth(row: dict[str, Any]) -> tuple[int, str]:
    return -row["worth"], row["piece"]


def _describe_content(house: House, state: PieceState) -> dict[str, Any]:
    """What its content says; that it was erased, where it was."""
    content = content_reader(house.blobs)(state.content) if state.content else None
    if content is None:
        return {"says": "erased" if state.content else "", "does": None}
    text, change = text_and_change(content)
    return {"says": text, "does": describe_change(change.model_dump(mode="json"))}


def _show(kind: PieceKind, fold: Fold[PieceState], piece: str, as_of: str | None, *, as_json: bool) -> None:
    with open_project() as house:
        views = house.views(read_position(house.store, as_of))
        now = datetime.now(UTC) if as_of is None else time_of(house.store, views.upto)
        state = views.get(fold, piece)
        if state is None:
            raise Unknown(what=kind, actual=piece, way_out=f"`flywheel {fold.name} list` names them.")
        changes = views.history(fold, piece)
        recorded = house.store.read(stream=f"{kind}/{piece}", upto=views.upto)
        trials = trials_of(recorded, changes, withdrawals(views))
        row = {**report_piece(state, now), **_describe_content(house, state)}
    helps = {"uplift": uplift(trials), "uplift_without": uplift(trials, "withheld")}
    history = [_history_row(change) for change in changes]
    if as_json:
        emit_json({**row, **helps, "history": history, "trials": trials})
        return
    print_facts(list({**row, **{name: describe_uplift(found) for name, found in helps.items()}}.items()))
    say("")
    table(("since", "status", "wins", "losses"), [tuple(item.values()) for item in history])
    say("")
    table(TRIALS, [tuple(item.values()) for item in trials])


def describe_uplift(found: dict[str, Any] | None) -> str:
    """An uplift in points of a hundred, with its interval."""
    if found is None:
        return "no trial with controls"
    mean, low, high = (found[name] / 10_000 for name in ("mean", "low", "high"))
    return f"{mean:+.1f} points, 95 % interval {low:+.1f} to {high:+.1f}, from {found['trials']} trials"


def _history_row(change: Change[PieceState]) -> dict[str, object]:
    """One line of a history; nothing is left of a piece whose run was withdrawn."""
    if change.state is None:
        return {"since": change.since, "status": "withdrawn", "wins": 0, "losses": 0}
    state = change.state
    return {"since": change.since, "status": state.status, "wins": state.wins, "losses": state.losses}


hints, exemplars, curriculum = group_of("hint"), group_of("exemplar"), group_of("snippet")
