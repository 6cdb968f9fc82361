"""Slices: groups whose rows were registered, each pulled as one shard by the group's name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BeforeValidator

from eventlog.chain import canonical
from eventlog.events import FrozenModel
from eventlog.events.datasets import AnyQuery
from eventlog.store import Position

from ..datasets.freeze import again, build_dataset, make_rows, refuse_empty, refuse_unknown_group, register
from ..queries import datasets as queries
from .access import Caller
from .as_of import LIMIT, HouseOf, Limit, Reading, mark, reply, sorted_after
from .errors import Unprocessable
from .problems import NO_TEXT, SLOW, problem_of
from .rows import ERASED, ROWS, Wanting, send_rows
from .schemas import answer_of
from .small_bodies import TOO_LARGE

router = APIRouter(prefix="/slices", tags=["datasets"])

Group = Annotated[str, Path(description="the group's name")]
After = Annotated[str | None, sorted_after(400, "slices whose group sorts after this")]

_MISSING = problem_of("No slice of it is registered.")


@router.get("", summary="List slices", responses={200: answer_of(queries.SliceList)})
def list_slices(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"slices": [...], "next": group}` in order of group: pass `next` as `after` for the following page.

    Each has its digest, query, position, rows, and the runs refused, by reason.
    """
    return reply(queries.page_slices(views, after=after, limit=limit))


def _with_tuple(plain: Any) -> Any:
    """The query with its lists as tuples, which JSON does not have."""
    if not isinstance(plain, dict):
        return plain
    several = {name: tuple(plain[name]) for name in ("sweep", "outside") if isinstance(plain.get(name), list)}
    return {**plain, **several}


class SliceBody(FrozenModel):
    """A query that names the group whose rows to register."""

    query: Annotated[AnyQuery, BeforeValidator(_with_tuple)]


@router.post(
    "",
    status_code=201,
    summary="Register the rows of one group",
    responses={
        200: answer_of(queries.SliceAnswer, "These rows were registered by this query before."),
        201: answer_of(queries.SliceAnswer, "They are registered."),
        400: NO_TEXT,
        408: SLOW,
        413: TOO_LARGE,
        403: problem_of("The token's role may not register slices."),
        404: problem_of("There is no such group, or bytes that the query names were never put."),
        410: ERASED,
    },
)
def register_slice(request: Request, house: HouseOf, token: Caller, body: SliceBody) -> Response:
    """Register the rows that a query selects from its `group` at the head. The last registration of a group counts.

    The query has the form that `query` has in a slice or a dataset: `{"kind": "grpo", "group": "..."}`.
    """
    views, group = house.views(), body.query.group
    canonical(body.query.model_dump(mode="json"))  # refuses text that no log can hold
    if group is None:
        raise Unprocessable(where="query", actual="without a group", expected="the `group` whose rows to register")
    refuse_unknown_group(views, group)
    made = refuse_empty(make_rows(house.store, house.blobs, views, body.query))
    known = queries.last_slice(views, group)
    if known is not None and (known.dataset, known.parse_query()) == (made.digest, body.query):
        return reply(queries.SliceAnswer(slice=known))
    # as `api:NAME` it would be the token's holder who appends, and the registration would count as forged
    register(house.store, made, f"slices:{token.token}")
    after = house.views()
    mark(request, after.upto)
    return reply(queries.show_slice(after, group), status=201)


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
def rows(house: HouseOf, views: Reading, group: Group, wanted: Wanting) -> Response:
    """An Arrow IPC stream, Parquet or NDJSON, built from the log and verified, whole or a range of bytes."""
    found = queries.find_slice(views, group)

    def build_rows() -> Any:
        at = house.views(Position(found.upto))
        return again(found, lambda: build_dataset(house.store, house.blobs, at, found.parse_query())).rows

    return send_rows(house, found.dataset, build_rows, wanted)
