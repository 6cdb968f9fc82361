"""Memory: the pieces of each kind, and one piece with its evidence over time."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlog.events import PieceKind
from projections.evidence import Paired, Seeds
from projections.memories import FOLDS

from ..positions import moment_of
from ..queries.overview import show_overview
from ..queries.piece_reports import TrialRow, uplift
from ..queries.pieces import page_pieces, record_piece
from ..routes.as_of import AsOf, HouseOf, Id, Reading
from .pages import render_page

router = APIRouter()

PAGE = 50
Status = Literal["", "candidate", "promoted", "demoted", "retired", "quarantined", "cold"]
Name = Annotated[str, Query(max_length=200)]


@router.get("/memory")
def memory(
    request: Request,
    house: HouseOf,
    views: Reading,
    kind: PieceKind = "rewrite",
    status: Status = "",
    after: Name = "",
    as_of: AsOf = None,
) -> Response:
    """A page of the pieces of one kind, in order of id."""
    now = moment_of(house.store, as_of, views.upto)
    found = page_pieces(views, kind, now, status=status or None, after=after or None, limit=PAGE)
    return render_page(
        request,
        "memory.html",
        area="memory",
        position=views.upto,
        kind=kind,
        status=status,
        statuses=[each for each in get_args(Status) if each],
        counts=show_overview(views).pieces,
        found=found.pieces,
        following=found.next,
    )


@router.get("/memory/{kind}/{piece:path}")
def one_piece(
    request: Request, house: HouseOf, views: Reading, kind: PieceKind, piece: Id, as_of: AsOf = None
) -> Response:
    """One piece: where it applies, what it does, its evidence against its boundary, its trials, its history."""
    found = record_piece(house.store, house.blobs, views, kind, piece, moment_of(house.store, as_of, views.upto))
    state = found.report.state
    return render_page(
        request,
        "piece.html",
        area="memory",
        position=views.upto,
        kind=kind,
        fold=FOLDS[kind].name,
        piece=piece,
        state=state,
        record=found,
        rule=describe_rule_of(state.rule),
        uplift=uplift(found.trials),
        without=uplift(found.trials, "withheld"),
        plot=plot_evidence(found.trials, state.rule),
        anchor=getattr(state, "anchor", None) or getattr(state, "occasion", {}),
        change=getattr(state, "change", None) or None,
    )


def describe_rule_of(rule: Seeds | Paired | None) -> str:
    """The rule that decides a piece, in words."""
    match rule:
        case Seeds():
            return f"{rule.wins_to_promote} wins in a row promote, {rule.losses_to_demote} losses in a row demote."
        case Paired():
            looks = ", ".join(map(str, rule.looks))
            return f"Each trial is compared with {rule.controls} siblings; it is looked at after {looks} trials."
        case None:
            return "Nobody has proposed it."


def plot_evidence(trials: tuple[TrialRow, ...], rule: Seeds | Paired | None) -> dict[str, Any] | None:
    """The evidence of the trials that carried the piece, against the boundary that its rule adopts at.

    None without such trials. The boundary is where k * U**2 = bound * V.
    """
    found = [each for each in trials if each.tried == "treated" and each.counts and each.k and each.u is not None]
    if not found:
        return None
    series: list[dict[str, Any]] = [{"label": "U", "values": [each.u for each in found], "kind": "line"}]
    if isinstance(rule, Paired) and rule.controls > 1:
        edge = [round((rule.bound * (each.v or 0) / (each.k or 1)) ** 0.5, 2) for each in found]
        series.append({"label": "boundary", "values": edge, "kind": "edge"})
    return {"x": [each.k for each in found], "xLabel": "trials", "percent": False, "range": None, "series": series}
