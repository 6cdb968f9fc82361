"""Traces of an agent as OTLP in protobuf: a root and nine calls of a model, a kilobyte in and a kilobyte out of each.

Every server is sent the same bytes but for the ids of the traces and the name of their project.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

CALLS = 9
SPANS = CALLS + 1
BATCH = 50
"""Traces in a request."""

_TEXT = 1_000
_WORDS = (
    "boat",
    "anchor",
    "harbour",
    "private",
    "owner",
    "price",
    "filter",
    "message",
    "search",
    "cheapest",
    "sail",
    "engine",
    "deck",
    "hull",
    "north",
)
_SECOND = 10**9
_BEGAN = 1_790_000_000 * _SECOND


@dataclass(frozen=True, slots=True)
class SentTraces:
    """Traces of one project. Their ids begin with `prefix`, eight hexadecimal digits."""

    project: str
    prefix: str
    amount: int

    @property
    def spans(self) -> int:
        """The spans of all traces."""
        return self.amount * SPANS

    def bodies(self) -> Iterator[bytes]:
        """The requests, one after the other."""
        for first in range(0, self.amount, BATCH):
            yield self._request(range(first, min(first + BATCH, self.amount)))

    def _request(self, numbers: range) -> bytes:
        found = ExportTraceServiceRequest()
        of_resource = found.resource_spans.add()
        named = {"service.name": "bench-agent", "openinference.project.name": self.project}
        of_resource.resource.attributes.extend(_pair(name, text) for name, text in named.items())
        of_scope = of_resource.scope_spans.add()
        of_scope.scope.name = "bench"
        for number in numbers:
            of_scope.spans.extend(_spans(bytes.fromhex(f"{self.prefix}{number:024x}"), number))
        body: bytes = found.SerializeToString()
        return body


def _spans(trace: bytes, number: int) -> Iterator[Span]:
    draw = random.Random(number)  # noqa: S311 text of a benchmark
    root = _id(trace, 0)
    began = _BEGAN + number * _SECOND
    yield Span(
        trace_id=trace,
        span_id=root,
        name="invoke_agent",
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=began,
        end_time_unix_nano=began + _SECOND,
        attributes=[_pair("gen_ai.operation.name", "invoke_agent"), _pair("openinference.span.kind", "AGENT")],
    )
    for place in range(1, SPANS):
        at = began + place * _SECOND // SPANS
        yield Span(
            trace_id=trace,
            span_id=_id(trace, place),
            parent_span_id=root,
            name="chat m",
            kind=Span.SPAN_KIND_CLIENT,
            start_time_unix_nano=at,
            end_time_unix_nano=at + _SECOND // (2 * SPANS),
            attributes=list(_call(draw)),
        )


def _call(draw: random.Random) -> Iterator[KeyValue]:
    told = [{"role": "user", "parts": [{"type": "text", "content": _text(draw)}]}]
    answered = [{"role": "assistant", "parts": [{"type": "text", "content": _text(draw)}], "finish_reason": "stop"}]
    texts = {
        "gen_ai.operation.name": "chat",
        "openinference.span.kind": "LLM",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m",
        "gen_ai.input.messages": json.dumps(told),
        "gen_ai.output.messages": json.dumps(answered),
    }
    yield from (_pair(name, text) for name, text in texts.items())
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        yield KeyValue(key=name, value=AnyValue(int_value=250))


def _id(trace: bytes, place: int) -> bytes:
    return trace[:2] + trace[-5:] + bytes([place + 1])


def _text(draw: random.Random) -> str:
    found: list[str] = []
    while sum(map(len, found)) + len(found) < _TEXT:
        found.append(f"{draw.choice(_WORDS)}{draw.randrange(1000)}")
    return " ".join(found)[:_TEXT]


def _pair(name: str, text: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=text))
