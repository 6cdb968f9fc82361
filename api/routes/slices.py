"""Slices: groups whose rows were registered, each pulled as one shard by the group's name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from eventlog.store import Position

from ..datasets.freeze import again, build_dataset
from ..queries import datasets as queries
from .problems import problem_of
from .reading import HouseOf, Reading, reply
from .rows import ROWS, Accept, IfNoneMatch, send_rows
from .schemas import answer_of

router = APIRouter(prefix="/slices", tags=["datasets"])

Group = Annotated[str, Path(description="the group's name")]

_MISSING = problem_of("No slice of it is registered.")


@router.get("", summary="List slices", responses={200: answer_of(queries.SliceList)})
def list_slices(views: Reading) -> Response:
    """`{"slices": [...]}` in order of group: digest, query, position, rows, and the runs refused, by reason."""
    return reply(queries.list_slices(views))


@router.get("/{group}", summary="One slice", responses={404: _MISSING, 200: answer_of(queries.SliceAnswer)})
def one_slice(views: Reading, group: Group) -> Response:
    """`{"slice": ...}` as it was registered last."""
    return reply(queries.show_slice(views, group))


@router.get(
    "/{group}/rows",
    summary="The rows of a group, as one shard",
    response_class=Response,
    responses={404: _MISSING, **ROWS},
)
def rows(
    house: HouseOf, views: Reading, group: Group, accept: Accept = None, if_none_match: IfNoneMatch = None
) -> Response:
    """An Arrow IPC stream or NDJSON, recomputed from the log and verified. The ETag is the rows' digest."""
    found = queries.find_slice(views, group)

    def build_rows() -> Any:
        at = house.views(Position(found.upto))
        return again(found, lambda: build_dataset(house.store, house.blobs, at, found.parse_query())).rows

    return send_rows(house, found.dataset, build_rows, accept, if_none_match)
