"""Whether the service and its database answer, and how far each projection has read."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from projections.engine.builds import Bookmark, bookmarks

from .problems import problem_of
from .reading import HouseOf, mark, reply

router = APIRouter(tags=["health"])


@router.get(
    "/healthz",
    summary="Is it up",
    responses={503: problem_of("The database does not answer.")},
)
def healthz(request: Request, house: HouseOf) -> Response:
    """The head of the log and the position of each projection; a parked one says where. Needs no token."""
    head = house.store.head()
    mark(request, head)
    positions = {bookmark.projection: _plain(bookmark) for bookmark in bookmarks(house.engine)}
    return reply({"status": "ok", "head": head, "projections": positions})


def _plain(bookmark: Bookmark) -> dict[str, object]:
    if bookmark.parked_at is None:
        return {"position": bookmark.position}
    return {"position": bookmark.position, "parked_at": bookmark.parked_at}
