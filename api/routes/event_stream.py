"""The log as it grows: events as server-sent events, resumed after the position that a client saw last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Final

import msgspec
from anyio import current_time, sleep, to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError

from eventlog.chain import EXACT
from eventlog.errors import FlywheelError
from eventlog.store import Position
from projections.access import TokenState
from projections.errors import NotThereYet

from ..house import House
from ..queries.encoding import encode_value
from ..queries.events import EventPage, LoggedEvent, list_events
from ..tokens import find_token
from .access import Caller, access_views
from .admission import places_of
from .as_of import HouseOf, Reached, Wanted, mark
from .events import Type, refuse_unknown_type, tell_events
from .problems import problem_of

router = APIRouter(prefix="/events", tags=["events"])

MEDIA_TYPE: Final = "text/event-stream"
PAGE: Final = 100
"""Events that are read at once; a reader that is behind gets page after page."""

POLL_S: Final = 0.5
HEARTBEAT_S: Final = 15.0
LONGEST_S: Final = 900.0
"""A stream ends after so many seconds; a client resumes it, with a token that is checked again."""

_OPENING: Final = b"retry: 1000\n\n"
_HEARTBEAT: Final = b": heartbeat\n\n"

After = Annotated[int | None, Query(ge=0, le=EXACT, description="events after this position; default: the head")]
LastEventId = Annotated[
    int | None, Header(alias="Last-Event-ID", ge=0, le=EXACT, description="the same, as browsers send it; it wins")
]


def _stream_place(request: Request, token: Caller) -> Iterator[None]:
    """A place among the open streams, until the answer has ended."""
    with places_of(request.app).take_stream(token.token):
        yield


@router.get(
    "/stream",
    summary="Follow the log",
    response_class=StreamingResponse,
    dependencies=[Depends(_stream_place)],
    responses={
        200: {"description": "Events as they come, until the client leaves.", "content": {MEDIA_TYPE: {}}},
        429: problem_of("Too many streams are open."),
    },
)
async def follow_events(
    request: Request,
    house: HouseOf,
    token: Caller,
    head: Reached,
    after: After = None,
    last_event_id: LastEventId = None,
    stream: Wanted = None,
    kind: Type = None,
) -> StreamingResponse:
    """Server-sent events: `id` is the position, `data` the event in the form that `GET /v1/events` gives.

    Without a position they begin at the head. A comment comes every 15 seconds. After 15 minutes the answer ends, and a
    client resumes with `Last-Event-ID`, which browsers do by themselves.
    """
    refuse_unknown_type(kind)
    start = next((each for each in (last_event_id, after) if each is not None), head)
    if start > head:
        raise NotThereYet(expected=start, actual=head)
    mark(request, head)
    parts = _parts(request, house, token, start, stream, kind)
    return StreamingResponse(parts, media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


async def _parts(
    request: Request, house: House, token: TokenState, start: int, stream: str | None, kind: str | None
) -> AsyncIterator[bytes]:
    """The bytes of a stream until its time is up, the client or the server leaves, or the log cannot be read."""
    yield _OPENING
    now = current_time()
    ends, beats, place = now + request.app.state.stream_seconds, now + HEARTBEAT_S, start
    try:
        while True:
            page, reached = await to_thread.run_sync(_read, house, token, place, stream, kind)
            for each in page.events:
                yield _event_bytes(each)
            place = reached if page.next is None else page.next
            now = current_time()
            if now >= ends or request.app.state.is_stopping() or await request.is_disconnected():
                return
            if now >= beats:
                if not await to_thread.run_sync(_is_accepted, house, token):
                    return
                yield _HEARTBEAT
                beats = now + HEARTBEAT_S
            if page.next is None:
                await sleep(POLL_S)
    except (FlywheelError, SQLAlchemyError):
        return  # the client resumes, and is told what is wrong


def _read(house: House, token: TokenState, after: int, stream: str | None, kind: str | None) -> tuple[EventPage, int]:
    """A page of events, and the position up to which all were read where no page follows it."""
    head = house.store.head()
    if head == after:
        return EventPage(events=(), next=None), after
    page = list_events(house.store, Position(head), after=after, limit=PAGE, stream=stream, kind=kind)
    return tell_events(house, token, Position(head), page), head


def _event_bytes(event: LoggedEvent) -> bytes:
    data = msgspec.json.encode(event, enc_hook=encode_value)
    return b"id: %d\ndata: %s\n\n" % (event.position, data)


def _is_accepted(house: House, token: TokenState) -> bool:
    return find_token(access_views(house), token.token) is not None
