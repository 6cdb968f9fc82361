"""Traces of OpenTelemetry over HTTP: OTLP in protobuf or JSON, recorded as runs from outside."""

from __future__ import annotations

from typing import Annotated, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response

from projections.access import TokenState

from ..house import House
from ..ingest.errors import TracesTooLarge
from ..ingest.inflate import ENCODINGS, inflate_body
from ..ingest.otlp_json import spans_of_json
from ..ingest.spans import Span
from ..ingest.traces import SpanReceipt, TraceLog, TraceSender
from ..run_owners import trace_actor
from .access import Caller
from .admission import lease_bytes, places_of
from .as_of import HouseOf, reply
from .bodies import hold_body
from .errors import UnreadableType
from .roles import RUNS_OF_OTHERS, has_role
from .trace_errors import JSON, PROTOBUF, status_of

router = APIRouter(prefix="/traces", tags=["traces"])

_BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
        JSON: {"schema": {"type": "object", "required": ["resourceSpans"], "additionalProperties": True}},
    },
}
_ANSWER: Final[dict[str, Any]] = {
    "description": "Recorded. `partialSuccess` says which spans were refused, and why.",
    "content": {
        PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
        JSON: {
            "schema": {
                "type": "object",
                "properties": {
                    "partialSuccess": {
                        "type": "object",
                        "properties": {"rejectedSpans": {"type": "string"}, "errorMessage": {"type": "string"}},
                    }
                },
            }
        },
    },
}


async def _sent_body(request: Request, house: HouseOf, token: Caller) -> tuple[str, bytes]:
    """The media type and the inflated body. Raises UnreadableType, BadTraces, TracesTooLarge, and as hold_body."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "").strip().lower() or "identity"
    for what, given, offered in (("type", media, (PROTOBUF, JSON)), ("encoding", encoding, ENCODINGS)):
        if given not in offered:
            raise UnreadableType(what=what, actual=given, expected=" or ".join(offered))
    most = house.settings.trace_bytes
    async with hold_body(request, house, token, most, TracesTooLarge) as body:
        return media, body if encoding == "identity" else await to_thread.run_sync(inflate_body, body, most)


SentBody = Annotated[tuple[str, bytes], Depends(_sent_body)]


@router.post(
    "",
    summary="Record traces of OpenTelemetry",
    openapi_extra={"requestBody": _BODY},
    response_class=Response,
    responses={
        200: _ANSWER,
        400: status_of("The body is no OTLP or no gzip, or the connection ended before it had arrived."),
        401: status_of("The bearer token is missing or not accepted."),
        403: status_of("The token's role may not append."),
        408: status_of("The body did not arrive in time."),
        409: status_of("The log has not reached the requested position."),
        413: status_of("The body is larger than FLYWHEEL_TRACE_BYTES, as it came or inflated."),
        415: status_of("The body is neither protobuf nor JSON, or compressed in another way than gzip or deflate."),
        422: status_of("Part of the request is invalid."),
        429: status_of("Too many appends wait, or too many bodies are being received; send it again."),
        503: status_of("The database does not answer, or a projection is parked."),
    },
)
async def record_traces(request: Request, house: HouseOf, token: Caller, sent: SentBody) -> Response:
    """Record an ExportTraceServiceRequest (OTLP/HTTP): each trace becomes the run `ext-otel-<trace id>`.

    It is answered once everything is committed. Spans that were sent before change nothing.
    """
    media, body = sent
    lease = lease_bytes(request.app, house)
    try:
        lease.add(len(body))
        with places_of(request.app).take_append(house) as threads:
            receipt = await to_thread.run_sync(_record, request, house, token, media, body, limiter=threads)
    finally:
        lease.release()
    return await to_thread.run_sync(_answer, media, receipt)


def _record(request: Request, house: House, token: TokenState, media: str, body: bytes) -> SpanReceipt:
    log = _trace_log(request, house)
    sender = TraceSender(trace_actor(token.token), token.token, has_role(token, RUNS_OF_OTHERS))
    return log.record(sender, _read_spans(media, body), "otlp")


def _trace_log(request: Request, house: House) -> TraceLog:
    """The application's own, which remembers where traces stand."""
    found: TraceLog | None = getattr(request.app.state, "trace_log", None)
    if found is None or found.house is not house:
        found = request.app.state.trace_log = TraceLog(house)
    return found


def _read_spans(media: str, body: bytes) -> tuple[Span, ...]:
    """Raises BadTraces."""
    if media == JSON:
        return spans_of_json(body)
    from ..ingest.protobuf import spans_of_protobuf  # imported on use: most servers are asked for none

    return spans_of_protobuf(body)


def _answer(media: str, receipt: SpanReceipt) -> Response:
    if media == JSON:
        partial = {"rejectedSpans": str(receipt.refused), "errorMessage": receipt.reasons}
        return reply({"partialSuccess": partial} if receipt.reasons else {})
    from ..ingest.protobuf import protobuf_answer

    return Response(protobuf_answer(receipt.refused, receipt.reasons), media_type=PROTOBUF)
