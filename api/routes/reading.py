"""Reads at a position: `as_of` to a position, the views there, and the header that says which position answered."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Path, Query, Request, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlog.events.event import EXACT
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from projections.errors import NotThereYet
from projections.views import PostgresViews

from ..errors import BadPosition
from ..house import House
from ..reading import read_position

POSITION_HEADER = "X-Log-Position"
LIMIT = 100
MOST = 1000

_KNOWN = "log_position"
_NO_NUL = r"^[^\x00]+$"

Id = Annotated[str, Path(min_length=1, max_length=200, pattern=_NO_NUL)]
"""A name in a path."""

Wanted = Annotated[str | None, Query(min_length=1, max_length=200, pattern=_NO_NUL)]
"""A name that a list is filtered by."""

Limit = Annotated[int, Query(ge=1, le=MOST, description="the most items to answer with")]

AsOf = Annotated[
    str | None,
    Query(
        max_length=40,
        description="answer as of this log position, or as of the last position at or before this ISO 8601 time"
        " (without an offset: UTC; write + as %2B); default: the head",
    ),
]


def house_of(request: Request) -> House:
    """The house the application was created with."""
    house = request.app.state.house
    if not isinstance(house, House):
        raise TypeError(f"app.state.house is {house!r}; expected the House that create_app was given")
    return house


HouseOf = Annotated[House, Depends(house_of)]


def position_of(store: PostgresStore, as_of: str | None) -> Position | None:
    """The position that `as_of` names, None for the head. Raises BadPosition."""
    position = read_position(store, as_of)
    if position is not None and position > EXACT:
        raise BadPosition(actual=as_of)
    return position


def reading(request: Request, house: HouseOf, as_of: AsOf = None) -> PostgresViews:
    """The views a read answers from."""
    views = house.views(position_of(house.store, as_of))
    mark(request, views.upto)
    return views


Reading = Annotated[PostgresViews, Depends(reading)]


def bound(request: Request, house: HouseOf, as_of: AsOf = None) -> Position:
    """The position a read of the log itself answers up to. Raises NotThereYet."""
    head, wanted = house.store.head(), position_of(house.store, as_of)
    if wanted is not None and wanted > head:
        raise NotThereYet(expected=wanted, actual=head)
    upto = head if wanted is None else wanted
    mark(request, upto)
    return upto


Bound = Annotated[Position, Depends(bound)]


def mark(request: Request, position: Position) -> None:
    """Remember the position that the answer will name."""
    setattr(request.state, _KNOWN, position)


def known_position(scope: MutableMapping[str, Any]) -> Position | None:
    """The position that was remembered for a request."""
    found = scope.get("state", {}).get(_KNOWN)
    return None if found is None else Position(found)


def reply(content: Mapping[str, object], *, status: int = 200) -> Response:
    """JSON of plain values, fold states and times."""
    return Response(msgspec.json.encode(content, enc_hook=str), status_code=status, media_type="application/json")


class PositionHeader:
    """Middleware: every answer names the position it is of, where one is known."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a place for the position."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})

        async def named(message: Message) -> None:
            position = known_position(scope)
            if message["type"] == "http.response.start" and position is not None:
                MutableHeaders(scope=message)[POSITION_HEADER] = str(position)
            await send(message)

        await self._app(scope, receive, named)
