"""Moves of an operator: point, go back, quarantine, withdraw; with a preview, a reason and a confirmation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import Response

from eventlog.chain import EXACT
from eventlog.errors import FlywheelError
from eventlog.store import Position
from gate.figures import count_noun
from projections.access import TokenState
from projections.memories import candidacies, piece_kind

from ..errors import Unknown
from ..routes.as_of import HouseOf
from ..routes.roles import check_role
from .access import ACTOR, OPERATOR, Operator, Text, Visitor
from .errors import NotConfirmed
from .pages import redirect_to, render_page

router = APIRouter(prefix="/moves")

Name = Annotated[str, Query(max_length=200)]
Runs = Annotated[str, Query(max_length=20_000)]
RunsSent = Annotated[str, Form(max_length=60_000)]
Seen = Annotated[int, Form(ge=0, le=EXACT)]
Checked = Annotated[Literal["", "true"], Form()]


def check_operator(visitor: Visitor) -> TokenState:
    """An operator who looks at what a move would change. Raises RoleTooLow."""
    check_role(visitor, OPERATOR, "move anything from the dashboard")
    return visitor


_PREVIEWS = [Depends(check_operator)]


@router.get("/point", dependencies=_PREVIEWS)
def point_page(request: Request, house: HouseOf, artifact: Name = "") -> Response:
    """Ask for an artifact, and show what pointing at it would change."""
    from ..history.champion_moves import preview_point  # noqa: PLC0415 it brings what judges

    preview, refused = None, None
    if artifact:
        try:
            preview = preview_point(house, artifact.strip())
        except FlywheelError as error:
            refused = str(error)
    return render_page(
        request, "move_point.html", area="champions", artifact=artifact, preview=preview, refused=refused
    )


@router.post("/point")
def point_move(
    request: Request,
    house: HouseOf,
    operator: Operator,
    artifact: Text,
    seen: Seen,
    reason: Text = "",
    confirmation: Text = "",
) -> Response:
    """Make an artifact champion."""
    from ..history.champion_moves import point_at  # noqa: PLC0415

    _confirm(confirmation, artifact)
    point_at(house, artifact, reason, ACTOR.format(operator.token), Position(seen))
    return redirect_to(request, "/champions")


@router.get("/back", dependencies=_PREVIEWS)
def back_page(request: Request, house: HouseOf) -> Response:
    """Show what going back to the champion before would change."""
    from ..history.champion_moves import preview_back  # noqa: PLC0415

    try:
        preview, refused = preview_back(house), None
    except FlywheelError as error:
        preview, refused = None, str(error)
    return render_page(request, "move_back.html", area="champions", preview=preview, refused=refused)


@router.post("/back")
def back_move(
    request: Request,
    house: HouseOf,
    operator: Operator,
    before: Text,
    seen: Seen,
    reason: Text = "",
    confirmation: Text = "",
    withdraws: Checked = "",
) -> Response:
    """Put the champion before the present one back."""
    from ..history.champion_moves import go_back  # noqa: PLC0415

    _confirm(confirmation, before)
    go_back(house, reason, ACTOR.format(operator.token), Position(seen), withdraws=withdraws == "true")
    return redirect_to(request, "/champions")


@router.get("/quarantine", dependencies=_PREVIEWS)
def quarantine_page(request: Request, house: HouseOf, piece: Name = "") -> Response:
    """Show what quarantining a piece would change."""
    from ..history.champion_moves import is_in_champion  # noqa: PLC0415

    views = house.views()
    state = candidacies(views).get(piece)
    if state is None:
        raise Unknown(what="piece", actual=piece, way_out="The page Memory lists the pieces.")
    return render_page(
        request,
        "move_quarantine.html",
        area="memory",
        piece=piece,
        kind=piece_kind(state),
        state=state,
        seen=int(views.upto),
        is_held=is_in_champion(house, views, piece),
    )


@router.post("/quarantine")
def quarantine_move(
    request: Request,
    house: HouseOf,
    operator: Operator,
    piece: Text,
    seen: Seen,
    reason: Text = "",
    confirmation: Text = "",
) -> Response:
    """Quarantine a piece."""
    from gate.promote import quarantine_piece  # noqa: PLC0415

    _confirm(confirmation, piece)
    views = house.views(Position(seen))
    state = candidacies(views).get(piece)
    quarantine_piece(house.store, views, piece, reason, ACTOR.format(operator.token))
    kind = "rewrite" if state is None else piece_kind(state)
    return redirect_to(request, f"/memory/{kind}/{piece}")


@router.get("/withdraw", dependencies=_PREVIEWS)
def withdraw_page(request: Request, house: HouseOf, runs: Runs = "") -> Response:
    """Ask for runs, and show what was learned from them."""
    from ..history.withdraw import taint_of_runs, withdrawable  # noqa: PLC0415

    named, found, refused = runs.split(), None, None
    if named:
        try:
            views = house.views()
            found = taint_of_runs(house, views, withdrawable(views, named))
        except FlywheelError as error:
            refused = str(error)
    values: dict[str, Any] = {"runs": runs, "found": found, "refused": refused}
    return render_page(request, "move_withdraw.html", area="runs", words=_words(len(set(named))), **values)


@router.post("/withdraw")
def withdraw_move(
    request: Request, house: HouseOf, operator: Operator, runs: RunsSent, reason: Text = "", confirmation: Text = ""
) -> Response:
    """Withdraw runs."""
    from ..history.withdraw import withdraw_runs, withdrawable  # noqa: PLC0415

    chosen = withdrawable(house.views(), runs.split())
    _confirm(confirmation, _words(len(chosen)))
    withdraw_runs(house.store, chosen, reason, ACTOR.format(operator.token))
    return redirect_to(request, f"/runs/{chosen[0]}")


def _words(runs: int) -> str:
    """Words to type as confirmation that runs are withdrawn."""
    return f"withdraw {count_noun(runs, 'run')}"


def _confirm(actual: str, expected: str) -> None:
    if actual.strip() != expected:
        raise NotConfirmed(actual=actual.strip(), expected=expected)
