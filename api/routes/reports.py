"""Reports on pieces of memory, as the command line prints them: how each stands, what it says, every trial of it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from eventlog.events import PieceKind
from projections.memories import FOLDS

from ..positions import moment_of
from ..queries import reports as queries
from .as_of import LIMIT, AsOf, HouseOf, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

After = Annotated[str | None, sorted_after(200, "pieces whose id sorts after this")]
Status = Annotated[
    Literal["candidate", "promoted", "demoted", "retired", "quarantined", "cold"] | None,
    Query(description="the status that pieces have at the position; cold ones are promoted and idle"),
]


def reports_router(kind: PieceKind) -> APIRouter:
    """The endpoints that report on one kind of piece."""
    fold = FOLDS[kind]
    router = APIRouter(prefix=f"/reports/{fold.name}", tags=[fold.name])

    @router.get(
        "",
        summary=f"Report on {fold.name}",
        name=f"report_{fold.name}",
        responses={200: answer_of(queries.reports_kind(kind))},
    )
    def report(
        house: HouseOf,
        views: Reading,
        as_of: AsOf = None,
        status: Status = None,
        limit: Limit = LIMIT,
        after: After = None,
    ) -> Response:
        """`{"reports": [{"state", "summary", "content"}], "next": id}` in order of id; pass `next` as `after`.

        `summary` says how the piece stands now or, with `as_of`, then: evidence, next look, worth, and why.
        """
        now = moment_of(house.store, as_of, views.upto)
        found = queries.list_reports(house.blobs, views, kind, now, status=status, after=after, limit=limit)
        return reply(found)

    @router.get(
        "/{piece_id:path}",
        summary=f"Everything known of one {kind}",
        name=f"record_{kind}",
        responses={200: answer_of(queries.record_kind(kind)), 404: problem_of(f"There is no such {kind}.")},
    )
    def one_record(house: HouseOf, views: Reading, piece_id: Id, as_of: AsOf = None) -> Response:
        """`{"record": {"report", "history", "trials"}}`: how the status changed, and every trial."""
        now = moment_of(house.store, as_of, views.upto)
        return reply(queries.show_record(house.store, house.blobs, views, kind, piece_id, now))

    return router
