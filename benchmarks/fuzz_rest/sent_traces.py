"""Fuzzed OTLP: export requests in protobuf and JSON that keep to the format in most places, and bytes that do not."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any

from google.protobuf.json_format import MessageToDict
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

Sent = tuple[dict[str, str], bytes]
"""Headers and a body."""

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_LONG = 2**64 - 1

_NAMES = st.sampled_from(
    [
        *("gen_ai.operation.name", "gen_ai.request.model", "gen_ai.provider.name", "gen_ai.system"),
        *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions"),
        *("gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.conversation.id"),
        *("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.request.temperature"),
        *("gen_ai.request.max_tokens", "gen_ai.request.seed", "gen_ai.request.choice.count"),
        *("gen_ai.request.stop_sequences", "gen_ai.response.finish_reasons", "gen_ai.agent.name", "session.id"),
        *("gen_ai.evaluation.name", "gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"),
        *("gen_ai.evaluation.explanation", "openinference.span.kind", "llm.model_name", "llm.invocation_parameters"),
        *("llm.input_messages.0.message.role", "llm.input_messages.0.message.content", "input.value", "output.value"),
        *("llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments", "gen_ai.event.content", "content"),
    ]
) | st.text(max_size=20)
_WORDS = st.sampled_from(
    [
        *(
            "chat",
            "execute_tool",
            "LLM",
            "TOOL",
            "AGENT",
            "reward",
            "pass",
            "fail",
            "m",
            "{}",
            "[]",
            "null",
            "\0",
            "1e999",
        ),
        '[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]',
        '[{"role": "assistant", "parts": [{"type": "tool_call", "name": 1, "arguments": {"a": [1]}}]}]',
        '[{"role": 1, "content": {"a": null}, "tool_calls": 5}]',
        '{"temperature": 1e308, "max_tokens": -1, "stop": [1, "x"], "n": 2.5}',
        "[" * 2_000,
    ]
) | st.text(max_size=60)
_NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, -1, 2**53, 2**63 - 1, -(2**63)])
_SIMPLE = st.one_of(
    st.builds(AnyValue, string_value=_WORDS),
    st.builds(AnyValue, int_value=_NUMBERS),
    st.builds(AnyValue, double_value=st.floats() | st.sampled_from([0.0, 0.5, 1.0, 1e308])),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, bytes_value=st.binary(max_size=20)),
    st.just(AnyValue()),
)
_VALUES = st.recursive(
    _SIMPLE,
    lambda below: st.one_of(
        st.builds(AnyValue, array_value=st.builds(ArrayValue, values=st.lists(below, max_size=3))),
        st.builds(
            AnyValue,
            kvlist_value=st.builds(
                KeyValueList, values=st.lists(st.builds(KeyValue, key=_NAMES, value=below), max_size=3)
            ),
        ),
    ),
    max_leaves=6,
)
_PAIRS = st.lists(st.builds(KeyValue, key=_NAMES, value=_VALUES), max_size=8)
_TIMES = st.integers(0, _LONG) | st.sampled_from([0, 1, 10**18, _LONG])
_TRACES = st.sampled_from([b"\x01" * 16, b"\x02" * 16, b"\0" * 16, b"", b"\x03" * 15]) | st.binary(max_size=17)
_IDS = st.sampled_from([b"\x01" * 8, b"\x02" * 8, b"\x03" * 8, b"\0" * 8, b""]) | st.binary(min_size=8, max_size=8)
_HAPPENED = st.builds(
    Span.Event,
    name=st.sampled_from(["gen_ai.evaluation.result", "gen_ai.user.message", "gen_ai.choice", "exception"]) | _WORDS,
    time_unix_nano=_TIMES,
    attributes=_PAIRS,
)
_SPANS = st.builds(
    Span,
    trace_id=_TRACES,
    span_id=_IDS,
    parent_span_id=_IDS | st.just(b""),
    trace_state=st.text(max_size=8),
    flags=st.integers(0, 2**32 - 1),
    name=_WORDS,
    kind=st.integers(0, 9),
    start_time_unix_nano=_TIMES,
    end_time_unix_nano=_TIMES,
    attributes=_PAIRS,
    events=st.lists(_HAPPENED, max_size=3),
    links=st.lists(st.builds(Span.Link, trace_id=_TRACES, span_id=_IDS, attributes=_PAIRS), max_size=1),
    status=st.builds(Status, code=st.integers(0, 3), message=_WORDS),
)


@st.composite
def _requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    found = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 2))):
        of_resource = found.resource_spans.add()
        of_resource.resource.attributes.extend(draw(_PAIRS))
        of_scope = of_resource.scope_spans.add()
        of_scope.scope.name = draw(_WORDS)
        of_scope.spans.extend(draw(st.lists(_SPANS, max_size=5)))
    return found


@st.composite
def fuzzed_traces(draw: st.DrawFn) -> Sent:
    """The headers and the body of a request to `/v1/traces`."""
    request = draw(_requests())
    media = draw(st.sampled_from([PROTOBUF, JSON]))
    body = request.SerializeToString() if media == PROTOBUF else draw(_as_json(request))
    if draw(st.integers(0, 3)) == 0:
        body = draw(_damaged(body))
    headers = {"Content-Type": media}
    encoding = draw(st.sampled_from(["", "", "gzip", "deflate"]))
    if encoding:
        headers["Content-Encoding"] = encoding
        body = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
        if draw(st.integers(0, 5)) == 0:
            body = draw(_damaged(body))
    if draw(st.integers(0, 20)) == 0:
        headers["Content-Type"] = draw(st.sampled_from(["text/plain", "", "application/json; charset=latin-1"]))
    return headers, body


@st.composite
def _as_json(draw: st.DrawFn, request: ExportTraceServiceRequest) -> bytes:
    """The JSON form; its ids are hexadecimal, and now and then a field is another value."""
    plain = MessageToDict(request)
    for each in plain.get("resourceSpans", ()):
        for scope in each.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for holder in (span, *span.get("links", ())):
                    for name in ("traceId", "spanId", "parentSpanId"):
                        if name in holder:
                            holder[name] = base64.b64decode(holder[name]).hex()
                if draw(st.integers(0, 4)) == 0:
                    span[draw(st.sampled_from([*span, "attributes", "endTimeUnixNano"]))] = draw(_STRANGE)
    return json.dumps(plain).encode()


_STRANGE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.integers(-(10**25), 10**25),
    st.integers(-(10**25), 10**25).map(str),
    st.floats(),
    st.text(max_size=10),
    st.just([{"key": "gen_ai.usage.input_tokens", "value": {"intValue": str(10**20 - 1)}}]),
    st.just([{"key": "gen_ai.request.seed", "value": {"intValue": -(10**30)}}]),
    st.just([{"key": "x", "value": {"doubleValue": "Infinity"}}]),
    st.lists(st.none(), max_size=2),
)


@st.composite
def _damaged(draw: st.DrawFn, body: bytes) -> bytes:
    """Bytes with a few of them cut, changed or added."""
    at = draw(st.integers(0, len(body)))
    change = draw(st.sampled_from(["cut", "insert", "change"]))
    if change == "cut":
        return body[:at]
    return body[:at] + draw(st.binary(min_size=1, max_size=4)) + body[at + (change == "change") :]
