"""Traces in the JSON form of OTLP: ids are hexadecimal, 64-bit integers may be texts, other fields are passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from projections.engine.decoders import decoder_of

from .errors import BadTraces
from .spans import Span, SpanEvent, SpanLink

_DEEPEST: Final = 64
"""Levels of lists and maps in an attribute; what lies deeper is null."""

_DIGITS: Final = 20
_UNKNOWN_TIME: Final = -1


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: str | int | None = None
    double_value: float | str | None = None
    array_value: _Values | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class _Values(msgspec.Struct, rename="camel"):
    values: list[_Value] = []


class _Pair(msgspec.Struct, rename="camel"):
    key: str = ""
    value: _Value | None = None


class _Pairs(msgspec.Struct, rename="camel"):
    values: list[_Pair] = []


class _Event(msgspec.Struct, rename="camel"):
    name: str = ""
    time_unix_nano: str | int = 0
    attributes: list[_Pair] = []
    dropped_attributes_count: int = 0


class _Link(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    trace_state: str = ""
    attributes: list[_Pair] = []


class _Status(msgspec.Struct, rename="camel"):
    code: int | str = 0
    message: str = ""


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    trace_state: str = ""
    parent_span_id: str = ""
    flags: int = 0
    name: str = ""
    kind: int | str = 0
    start_time_unix_nano: str | int = 0
    end_time_unix_nano: str | int = 0
    attributes: list[_Pair] = []
    dropped_attributes_count: int = 0
    events: list[_Event] = []
    dropped_events_count: int = 0
    links: list[_Link] = []
    dropped_links_count: int = 0
    status: _Status | None = None


class _Scope(msgspec.Struct, rename="camel"):
    name: str = ""
    version: str = ""
    attributes: list[_Pair] = []


class _ScopeSpans(msgspec.Struct, rename="camel"):
    scope: _Scope | None = None
    spans: list[_Span] = []


class _Resource(msgspec.Struct, rename="camel"):
    attributes: list[_Pair] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] = []


class _Request(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans]


def spans_of_json(body: bytes) -> tuple[Span, ...]:
    """The spans of an export request in JSON. Raises BadTraces."""
    try:
        found: _Request = decoder_of(_Request).decode(body)
        return tuple(_spans(found))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        expected = "an ExportTraceServiceRequest in JSON, with `resourceSpans`"
        raise BadTraces(actual=f"no OTLP ({problem})", expected=expected) from problem


def _spans(request: _Request) -> Iterator[Span]:
    for of_resource in request.resource_spans:
        resource = {} if of_resource.resource is None else _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            scope = of_scope.scope or _Scope()
            for each in of_scope.spans:
                yield _span(each, resource, scope, _attributes(scope.attributes))


def _span(found: _Span, resource: dict[str, Any], scope: _Scope, scope_attributes: dict[str, Any]) -> Span:
    status = found.status or _Status()
    return Span(
        trace=found.trace_id.lower(),
        span=found.span_id.lower(),
        parent=found.parent_span_id.lower(),
        state=found.trace_state,
        flags=found.flags,
        name=found.name,
        kind=_code(found.kind, _KINDS),
        start=_whole(found.start_time_unix_nano),
        end=_whole(found.end_time_unix_nano),
        attributes=_attributes(found.attributes),
        dropped_attributes=found.dropped_attributes_count,
        events=tuple(
            SpanEvent(
                name=each.name,
                at=_whole(each.time_unix_nano),
                attributes=_attributes(each.attributes),
                dropped_attributes=each.dropped_attributes_count,
            )
            for each in found.events
        ),
        dropped_events=found.dropped_events_count,
        links=tuple(
            SpanLink(
                trace=each.trace_id.lower(),
                span=each.span_id.lower(),
                state=each.trace_state,
                attributes=_attributes(each.attributes),
            )
            for each in found.links
        ),
        dropped_links=found.dropped_links_count,
        status=_code(status.code, _CODES),
        status_message=status.message,
        resource=resource,
        scope=scope.name,
        scope_version=scope.version,
        scope_attributes=scope_attributes,
    )


_KINDS: Final = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
_CODES: Final = {f"STATUS_CODE_{name}": number for number, name in enumerate(("UNSET", "OK", "ERROR"))}


def _code(value: int | str, names: dict[str, int]) -> int:
    """A number of an enumeration, which some write as its name."""
    return names.get(value, 0) if isinstance(value, str) else value


def _whole(value: int | str) -> int:
    """A 64-bit integer, which may be a text of digits; what is none is a time that is refused."""
    if isinstance(value, int):
        return value
    return int(value) if value.isascii() and value.isdecimal() and len(value) <= _DIGITS else _UNKNOWN_TIME


def _attributes(pairs: list[_Pair], depth: int = 0) -> dict[str, Any]:
    return {pair.key: _plain(pair.value, depth) for pair in pairs}


def _plain(value: _Value | None, depth: int) -> Any:
    if value is None or depth > _DEEPEST:
        return None
    if value.array_value is not None:
        return [_plain(each, depth + 1) for each in value.array_value.values]
    if value.kvlist_value is not None:
        return _attributes(value.kvlist_value.values, depth + 1)
    if isinstance(value.int_value, str):
        digits = value.int_value.removeprefix("-")
        is_whole = digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS
        return int(value.int_value) if is_whole else value.int_value
    simple = (value.string_value, value.bool_value, value.int_value, value.double_value, value.bytes_value)
    return next((each for each in simple if each is not None), None)
