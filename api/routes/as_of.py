"""Reads at a position: parse `as_of`, open the views there, and name the position in a header of the answer."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlog.chain import EXACT
from eventlog.errors import FlywheelError
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from projections.engine.views import PostgresViews
from projections.errors import NotThereYet

from ..errors import BadPosition
from ..house import House
from ..positions import read_position
from ..queries.encoding import encode_value

POSITION_HEADER = "X-Log-Position"
AT_LEAST_HEADER = "X-Log-At-Least"
LIMIT = 100
MOST = 1000

UNTOLD = frozenset({401, 503})
"""Statuses that name a position only if it is known already: the caller is not allowed in, or the log is down."""

_KNOWN = "log_position"

Id = Annotated[str, Path(min_length=1, max_length=200)]
"""A name in a path."""

Wanted = Annotated[str | None, Query(min_length=1, max_length=200)]
"""A name that a list is filtered by."""

Limit = Annotated[int, Query(ge=1, le=MOST, description="the most items to answer with")]


AfterPosition = Annotated[int, Query(ge=0, le=EXACT, description="what came after this position")]


def sorted_after(longest: int, description: str) -> Any:
    """The parameter that a list begins after: a name of at most so many characters."""
    return Query(max_length=longest, description=description)


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


AtLeast = Annotated[
    int | None,
    Query(
        ge=0,
        le=EXACT,
        description="answer only from a log that holds this position, such as the last that an append of yours took",
    ),
]
AtLeastHeader = Annotated[
    int | None, Header(alias=AT_LEAST_HEADER, ge=0, le=EXACT, description="the same as `at_least`; the larger counts")
]


def head_reached(house: HouseOf, at_least: AtLeast = None, at_least_header: AtLeastHeader = None) -> Position:
    """The head of the log, at or beyond the position that the caller requires. Raises NotThereYet."""
    head, wanted = house.store.head(), max(at_least or 0, at_least_header or 0)
    if wanted > head:
        raise NotThereYet(expected=wanted, actual=head)
    return head


Reached = Annotated[Position, Depends(head_reached)]


def views_for(request: Request, house: HouseOf, _head: Reached, as_of: AsOf = None) -> PostgresViews:
    """The views at `as_of` or the head, from a log that has reached the position that the caller requires."""
    views = house.views(position_of(house.store, as_of))
    mark(request, views.upto)
    return views


Reading = Annotated[PostgresViews, Depends(views_for)]


def position_bound(request: Request, house: HouseOf, head: Reached, as_of: AsOf = None) -> Position:
    """The last position that a read of the log itself includes. Raises NotThereYet."""
    wanted = position_of(house.store, as_of)
    if wanted is not None and wanted > head:
        raise NotThereYet(expected=wanted, actual=head)
    upto = head if wanted is None else wanted
    mark(request, upto)
    return upto


Bound = Annotated[Position, Depends(position_bound)]


def mark(request: Request, position: Position) -> None:
    """Record the position that the answer will name."""
    setattr(request.state, _KNOWN, position)


def known_position(scope: MutableMapping[str, Any]) -> Position | None:
    """The position recorded for a request; None if there is none."""
    found = scope.get("state", {}).get(_KNOWN)
    return None if found is None else Position(found)


async def position_for(scope: MutableMapping[str, Any]) -> Position | None:
    """The position that an answer names: the recorded one, else the head; None if the log cannot be read."""
    known = known_position(scope)
    app = scope.get("app")
    if known is not None or not isinstance(app, FastAPI):
        return known
    try:
        return await run_in_threadpool(app.state.house.store.head)
    except (SQLAlchemyError, FlywheelError):
        return None


def reply(content: Mapping[str, object] | msgspec.Struct, *, status: int = 200) -> Response:
    """A JSON response from a query's struct or plain values."""
    return Response(
        msgspec.json.encode(content, enc_hook=encode_value), status_code=status, media_type="application/json"
    )


class PositionHeader:
    """Middleware that names a position in every answer: the one it was read at, otherwise the head.

    Answers with a status in UNTOLD name a position only if one was recorded.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request and add the position to the start of its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})

        async def send_with_position(message: Message) -> None:
            if message["type"] == "http.response.start":
                is_untold = message["status"] in UNTOLD
                position = known_position(scope) if is_untold else await position_for(scope)
                if position is not None:
                    MutableHeaders(scope=message)[POSITION_HEADER] = str(position)
            await send(message)

        await self._app(scope, receive, send_with_position)
