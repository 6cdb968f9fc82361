"""Traces in the protobuf form of OTLP, read and answered by the package opentelemetry-proto."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan

from .errors import BadTraces
from .spans import Span, SpanEvent, SpanLink, plain_number


def spans_of_protobuf(body: bytes) -> tuple[Span, ...]:
    """The spans of an export request. Raises BadTraces."""
    try:
        return tuple(_spans(ExportTraceServiceRequest.FromString(body)))
    except (DecodeError, UnicodeDecodeError, RecursionError) as problem:
        expected = "an ExportTraceServiceRequest in protobuf"
        raise BadTraces(actual=f"no OTLP ({problem})", expected=expected) from problem


def protobuf_answer(refused: int, why: str) -> bytes:
    """The answer to an export request of which so many spans were refused, or a warning if none was."""
    if not refused and not why:
        return b""
    partial = ExportTracePartialSuccess(rejected_spans=refused, error_message=why)
    return bytes(ExportTraceServiceResponse(partial_success=partial).SerializeToString())


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            scope_attributes = _attributes(of_scope.scope.attributes)
            for each in of_scope.spans:
                yield _span(each, resource, of_scope.scope, scope_attributes)


def _span(
    found: SentSpan, resource: dict[str, Any], scope: InstrumentationScope, scope_attributes: dict[str, Any]
) -> Span:
    return Span(
        trace=found.trace_id.hex(),
        span=found.span_id.hex(),
        parent=found.parent_span_id.hex(),
        state=found.trace_state,
        flags=found.flags,
        name=found.name,
        kind=int(found.kind),
        start=found.start_time_unix_nano,
        end=found.end_time_unix_nano,
        attributes=_attributes(found.attributes),
        dropped_attributes=found.dropped_attributes_count,
        events=tuple(
            SpanEvent(
                name=each.name,
                at=each.time_unix_nano,
                attributes=_attributes(each.attributes),
                dropped_attributes=each.dropped_attributes_count,
            )
            for each in found.events
        ),
        dropped_events=found.dropped_events_count,
        links=tuple(
            SpanLink(
                trace=each.trace_id.hex(),
                span=each.span_id.hex(),
                state=each.trace_state,
                attributes=_attributes(each.attributes),
            )
            for each in found.links
        ),
        dropped_links=found.dropped_links_count,
        status=int(found.status.code),
        status_message=found.status.message,
        resource=resource,
        scope=scope.name,
        scope_version=scope.version,
        scope_attributes=scope_attributes,
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: AnyValue) -> Any:
    """A value as plain JSON; the library itself bounds how deep one may be."""
    text = value.string_value  # most values are texts; of another one it is empty
    if text:
        return text
    which = value.WhichOneof("value")
    if which == "string_value":
        return text
    if which is None:
        return None
    if which == "array_value":
        return [_plain(each) for each in value.array_value.values]
    if which == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    if which == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    found = getattr(value, which)
    return plain_number(found) if isinstance(found, float) else found
