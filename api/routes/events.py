"""The log: read pages of events, append events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replace_fields
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from msgspec.structs import replace
from pydantic import Field, ValidationError

from eventlog.chain import EXACT
from eventlog.events import EVENT_TYPES, AnyEvent, FrozenModel
from eventlog.events.event import Count
from eventlog.store import START, Append, Committed, Conflict, KeyReused, Outcome, Position, fresh_key
from projections.access import TokenState

from ..house import House
from ..queries import events as queries
from ..queries.sealed import hide_results, tells_results
from ..run_owners import api_actor, refuse_others
from . import outside
from .access import Caller
from .admission import places_of
from .as_of import LIMIT, MOST, AfterPosition, Bound, HouseOf, Limit, Wanted, known_position, mark, reply
from .bodies import hold_body
from .errors import AppendConflict, AppendKeyReused, AppendTooLarge, Unprocessable
from .outside_calls import append_calls, needs_its_run
from .problems import CUT, SLOW, faults, problem_of
from .roles import ALL_RESULTS, RUNS_OF_OTHERS, has_role
from .schemas import ANY_EVENT, answer_of

router = APIRouter(prefix="/events", tags=["events"])

_RUN = "run/"

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class AppendBody(FrozenModel):
    """Events for one stream, appended atomically. `expect` is the stream's version before them (0: a new stream)."""

    stream: Text
    events: Annotated[
        tuple[Annotated[AnyEvent, Field(discriminator="type")], ...], Field(min_length=1, max_length=MOST)
    ]
    expect: Count | None = None
    key: Text | None = None
    cause: Annotated[int, Field(ge=1, le=EXACT)] | None = None


def vocabulary() -> dict[str, Any]:
    """JSON schemas of the body and of every event, by name, for the OpenAPI document."""
    schema = AppendBody.model_json_schema(ref_template="#/components/schemas/{model}")
    parts: dict[str, Any] = schema.pop("$defs")
    events = schema["properties"]["events"]
    parts["AnyEvent"], events["items"] = events["items"], {"$ref": ANY_EVENT}
    return {**parts, "AppendBody": schema}


Type = Annotated[str | None, Query(alias="type", max_length=200, description="events of this type alone")]


def refuse_unknown_type(kind: str | None) -> None:
    """Raise Unprocessable if there is no such event type."""
    if kind is not None and kind not in EVENT_TYPES:
        raise Unprocessable(where="type", actual=repr(kind), expected="one of " + ", ".join(sorted(EVENT_TYPES)))


def tell_events(house: House, token: TokenState, upto: Position, page: queries.EventPage) -> queries.EventPage:
    """A page without the events that may not be told to this caller."""
    if token.role == ALL_RESULTS or not any(tells_results(each) for each in page.events):
        return page
    return replace(page, events=hide_results(house.views(upto), page.events))


@router.get("", summary="Read events in order", responses={200: answer_of(queries.EventPage)})
def read_events(
    house: HouseOf,
    token: Caller,
    upto: Bound,
    after: AfterPosition = 0,
    limit: Limit = LIMIT,
    stream: Wanted = None,
    kind: Type = None,
) -> Response:
    """`{"events": [...], "next": position}`: pass `next` as `after` for the following page; null: there is none.

    Events that tell results of the sealed part of a benchmark which can still judge are left out, except for admins.
    """
    refuse_unknown_type(kind)
    page = queries.list_events(house.store, upto, after=after, limit=limit, stream=stream, kind=kind)
    return reply(tell_events(house, token, upto, page))


async def _append_body(request: Request, house: HouseOf, token: Caller) -> bytes:
    async with hold_body(request, house, token, house.settings.append_bytes, AppendTooLarge) as body:
        return body


RawBody = Annotated[bytes, Depends(_append_body)]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=200, description="wins over `key` in the body"),
]


@router.post(
    "",
    status_code=201,
    summary="Append events to a stream",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/AppendBody"}}},
        }
    },
    responses={
        200: answer_of(queries.AppendAnswer, "The key was seen with this content: the positions it took then."),
        201: answer_of(queries.AppendAnswer, "Committed: the positions the events took, and the stream's version."),
        400: CUT,
        403: problem_of("Events that no token's holder, or none of this role, may append, or a run of another token."),
        404: problem_of("A model call of a run that did not begin, or one that names a blob that is not stored."),
        408: SLOW,
        409: problem_of("The stream is at another version, the key had other content, or the call's run has ended."),
        410: problem_of("A model call names a blob whose subject was erased."),
        413: problem_of("The body is larger than FLYWHEEL_APPEND_BYTES."),
        429: problem_of("Too many appends wait, or too many bodies are being received; try again with the same key."),
    },
)
async def append_events(request: Request, house: HouseOf, token: Caller, body: RawBody, key: Key = None) -> Response:
    """Append runs of your own agents (`ext-...`), their steps, model calls and rewards, and prices.

    `key` makes a retry harmless; keys of different tokens do not clash. `expect` refuses a stale decision.
    """
    # in a separate thread pool, so that appends that wait for one another do not block reads
    with places_of(request.app).take_append(house) as threads:
        return await to_thread.run_sync(_append, request, house, token, body, key, limiter=threads)


def _append(request: Request, house: House, token: TokenState, body: bytes, key: str | None) -> Response:
    try:
        asked = AppendBody.model_validate_json(body)
    except ValidationError as error:
        raise _unprocessable(error.errors(include_url=False, include_input=False)) from error
    outside.check_foreign_events(token, asked.stream, asked.events)
    append = Append(
        stream=asked.stream,
        events=asked.events,
        actor=api_actor(token.token),
        expect=asked.expect,
        key=_append_key(token, key or asked.key or fresh_key()),
        cause=None if asked.cause is None else Position(asked.cause),
    )
    if asked.stream.startswith(_RUN) and needs_its_run(house, asked.events):
        return _answer(request, append_calls(house, token, append))
    if not asked.stream.startswith(_RUN) or has_role(token, RUNS_OF_OTHERS):
        return _answer(request, house.store.append([append])[0])
    return _answer(request, _append_to_own(house, token, append))


def _append_to_own(house: House, token: TokenState, append: Append) -> Outcome:
    """Append to a run that the holder of a token opened, or opens with this. Raises OthersRun.

    An append to a run that nobody opened has to be its first, so that none is to a run that another opens meanwhile.
    """
    run = append.stream.removeprefix(_RUN)
    while (opener := house.run_openers.find(run)) is None:
        if append.expect:
            return Conflict(append.stream, append.expect, 0)
        (outcome,) = house.store.append([replace_fields(append, expect=0)])
        if not isinstance(outcome, Conflict) or append.expect == 0:
            return outcome
    refuse_others(run, opener, token.token)
    return house.store.append([append])[0]


def _append_key(token: TokenState, key: str) -> str:
    """The key of a token's holder in the log. Colons in names are escaped: no two tokens have a key in common."""
    name = token.token.replace("%", "%25").replace(":", "%3A")
    return f"api:{name}:{key}"


def _unprocessable(errors: Sequence[Any]) -> Unprocessable:
    found = faults(errors)
    where, message = found[0]["where"] or "the body", found[0]["message"]
    return Unprocessable(
        where=where,
        actual=f"refused ({message})",
        expected="an `AppendBody`, as /openapi.json describes it",
        errors=found,
    )


def _answer(request: Request, outcome: Outcome) -> Response:
    match outcome:
        case Conflict():
            raise AppendConflict(
                outcome="conflict", stream=outcome.stream, expected=outcome.expected, actual=outcome.actual
            )
        case KeyReused():
            raise AppendKeyReused(
                outcome="key_reused",
                key=outcome.key,
                actual="other content",
                expected=f"the events at positions {outcome.first} to {outcome.last}",
                first=outcome.first,
                last=outcome.last,
            )
        case Committed():
            mark(request, outcome.last)
            return reply(queries.AppendAnswer("committed", outcome.first, outcome.last, outcome.version), status=201)
        case _:
            mark(request, max(outcome.last, known_position(request.scope) or START))
            return reply(queries.AppendAnswer("repeated", outcome.first, outcome.last, None))
