"""`flywheel champion`: the pointer, its history, and the ways an operator moves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from eventlog.store import Position
from gate.figures import count_noun
from projections.champions import ChampionState

from ..errors import NoReason
from ..queries.champion import ChampionAnswer, ChampionHistory, champion_history, show_champion
from .champion_mirror import mirror
from .output import ERR, AsJson, AsOf, confirm_always, emit_json, open_project, print_facts, print_rows, say
from .sources import Server, open_source

if TYPE_CHECKING:
    from gate.promote import Pointed

    from ..history.champion_moves import BackPreview, PointPreview

app = typer.Typer(help="The champion: show, history, point, back, mirror.", no_args_is_help=True)
Reason = Annotated[str, typer.Option(help="Why; it is recorded with the move.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ACTOR = "operator"


def _row(state: ChampionState) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(state)
    return {**row, "champion": state.name}


@app.command()
def show(as_of: AsOf = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show who is champion, since when, who moved it, and on what evidence."""
    with open_source(server, as_of) as source:
        found = source.read(ChampionAnswer, "/v1/champion", lambda _house, views: show_champion(views))
        row = {**_row(found.champion), "as_of": source.upto}
    if as_json:
        emit_json(row)
    else:
        print_facts(
            [(name, row[name]) for name in ("champion", "since", "by", "actor", "reason", "evaluation", "as_of")],
        )


@app.command()
def history(as_of: AsOf = None, server: Server = None, as_json: AsJson = False) -> None:
    """List every champion there was."""
    with open_source(server, as_of) as source:
        found, _ = source.pages(
            ChampionHistory,
            "history",
            "/v1/champion/history",
            lambda _house, views: champion_history(views),
            after=None,
            limit=None,
        )
    rows = [_row(change.state) for change in found if change.state is not None]
    columns = ("since", "champion", "by", "actor", "evaluation", "reason")
    print_rows(rows, columns, as_json=as_json, empty="no champion yet; `flywheel run` points the first one")


@app.command()
def point(
    artifact: Annotated[str, typer.Argument(help="Such as base@0 or base@212.")],
    reason: Reason,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Make an artifact champion without the gate; the reason and who did it are recorded."""
    from ..history.champion_moves import point_at, preview_point

    with open_project() as house:
        preview = preview_point(house, artifact)
        if not as_json:
            _preview(preview)
        if not reason.strip():
            raise NoReason(what="the champion is moved")
        confirm_always(f"Make {preview.after} champion without a verdict?", yes=yes)
        pointed = point_at(house, artifact, reason, ACTOR, Position(preview.position))
    _say_moved(pointed, f"{pointed.artifact} is champion since position {pointed.position}", as_json=as_json)


@app.command()
def back(
    reason: Reason,
    withdraw_tainted: Annotated[
        bool,
        typer.Option("--withdraw-tainted", help="Also withdraw the runs played with the champion that is left."),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put the champion before the present one back, and quarantine what was learned since.

    What would change is shown first. With --withdraw-tainted nothing is learned any more from the runs that the
    champion which is left has played since it was pointed; what was learned from them is shown too.
    """
    from ..history.champion_moves import go_back, preview_back
    from .taint import show_learned

    if not reason.strip():
        raise NoReason(what="the champion is moved")
    with open_project() as house:
        preview = preview_back(house)
        if not as_json:
            _preview_back(preview)
            if withdraw_tainted:
                show_learned(
                    preview.tainted,
                    empty="The champion that is left has played no runs since it was pointed: none are withdrawn.",
                )
        besides = f", and withdraw {count_noun(len(preview.runs), 'run')}" if withdraw_tainted else ""
        confirm_always(f"Put {preview.after} back{besides}?", yes=yes)
        pointed = go_back(house, reason, ACTOR, Position(preview.position), withdraws=withdraw_tainted)
    withdrawn = {"withdrawn": preview.runs, "tainted": preview.tainted} if withdraw_tainted else {}
    if as_json:
        emit_json({**_plain(pointed), **withdrawn})
        return
    _say_moved(pointed, f"{pointed.artifact} is champion again since position {pointed.position}", as_json=False)
    if withdraw_tainted and preview.runs:
        say(f"withdrawn: {count_noun(len(preview.runs), 'run')}")


def _preview_back(preview: BackPreview) -> None:
    """Print what going back would change, apart from the output."""
    pieces = count_noun(len(preview.quarantined), "piece")
    ERR.print(f"{preview.before} -> {preview.after}: {pieces} quarantined", markup=False)
    for piece in preview.quarantined:
        ERR.print(f"- {piece}", markup=False)


def _preview(preview: PointPreview) -> None:
    """Print what pointing would change, apart from the output."""
    weights = "other weights" if preview.weights else "the same weights"
    ERR.print(
        f"{preview.before or 'no champion'} -> {preview.after}: {weights}, {preview.kept} pieces kept", markup=False
    )
    for sign, pieces in (("+", preview.added), ("-", preview.removed)):
        for each in pieces:
            ERR.print(f"{sign} {each.kind} {each.piece} {each.step}", markup=False)


def _say_moved(pointed: Pointed, words: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(_plain(pointed))
        return
    say(words)
    for piece in pointed.quarantined:
        say(f"quarantined: {piece}")


def _plain(pointed: Pointed) -> dict[str, Any]:
    return {"champion": str(pointed.artifact), "since": pointed.position, "quarantined": pointed.quarantined}


app.command()(mirror)
