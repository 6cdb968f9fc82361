"""Outcomes: how the runs of each sweep went, counted."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from projections.frames.outcomes import OUTCOMES, Cell, select_outcomes

from .errors import Unprocessable
from .reading import LIMIT, Bound, HouseOf, Limit, Wanted, reply

router = APIRouter(prefix="/outcomes", tags=["outcomes"])

After = Annotated[str | None, Query(max_length=1000, description="the `next` of the page before")]


@router.get("", summary="Count how runs went")
def list_outcomes(
    house: HouseOf,
    upto: Bound,
    sweep: Wanted = None,
    template: Wanted = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> Response:
    """`{"outcomes": [...], "next": text}` by sweep, template, and whether runs carried a candidate.

    Of `runs`, so many are `missing`, so many `graded`, and of these so many `passed`. `steps`, `score`, `value` and
    `cost` are sums, the last over the `priced` runs, the one before over the `valued`; in micro-units.
    """
    start = None if after is None else _read(after)
    found = select_outcomes(house.frames.read(OUTCOMES, upto), sweep=sweep, template=template, after=start).to_dicts()
    page = found[:limit]
    return reply({"outcomes": page, "next": _place_of(page[-1]) if len(found) > limit else None})


def _place_of(row: dict[str, object]) -> str:
    """The place of a row, in letters that need no quoting in an address."""
    place = [row["sweep"], row["template"], row["is_treated"]]
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _read(after: str) -> Cell:
    try:
        place: Cell = msgspec.json.decode(base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)), type=Cell)
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise Unprocessable(where="after", actual=repr(after), expected="the `next` of a page before") from error
    return place
