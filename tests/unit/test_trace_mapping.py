"""What a span becomes: both generations of the GenAI names, OpenInference, and whatever bytes come."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from api.ingest.chats import chat_run
from api.ingest.errors import BadTraces, TracesTooLarge
from api.ingest.inflate import inflate_body
from api.ingest.mapping import call_of, span_role, span_scores, tool_use
from api.ingest.otlp_json import spans_of_json
from api.ingest.protobuf import protobuf_answer, spans_of_protobuf
from api.ingest.runs_of_traces import TraceProgress, events_of_spans, unseen_spans
from api.ingest.spans import Span, SpanEvent, raw_spans, read_raw_spans, span_fault
from api.serving.errors import BadCall
from eventlog.codec import encode_events
from eventlog.events import ModelCalled, RewardGraded, RunFinished, RunStarted, SpansKept, StepTaken
from eventlog.store import Append
from tests.traced import chat, request, score, span, tool

TOLD = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "boats"}'}}


def read(*spans: dict[str, Any]) -> tuple[Span, ...]:
    return spans_of_json(json.dumps(request(*spans)).encode())


def one(own: dict[str, Any], **more: Any) -> Span:
    (found,) = read(span(2, own, **more))
    return found


NEW = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt",
    "gen_ai.response.model": "gpt-1",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.max_tokens": 99,
    "gen_ai.usage.input_tokens": 11,
    "gen_ai.usage.output_tokens": 3,
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]),
    "gen_ai.output.messages": json.dumps(
        [
            {
                "role": "assistant",
                "parts": [
                    {"type": "text", "content": "Hello"},
                    {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "boats"}},
                ],
                "finish_reason": "length",
            }
        ]
    ),
}
OLD = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system": "openai",
    "gen_ai.request.model": "gpt",
    "gen_ai.response.model": "gpt-1",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.max_tokens": 99,
    "gen_ai.usage.prompt_tokens": 11,
    "gen_ai.usage.completion_tokens": 3,
}
OLD_EVENTS = [
    ("gen_ai.system.message", {"content": "Be brief."}),
    ("gen_ai.user.message", {"content": "Hi"}),
    (
        "gen_ai.choice",
        {"index": 0, "finish_reason": "length", "message": {"content": "Hello", "tool_calls": [CALL]}},
    ),
]
INFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-1",
    "llm.invocation_parameters": '{"temperature": 0.5, "max_tokens": 99}',
    "llm.token_count.prompt": 11,
    "llm.token_count.completion": 3,
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be brief.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Hi",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Hello",
    "llm.output_messages.0.message.finish_reason": "length",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"q": "boats"}',
}


@pytest.mark.parametrize(
    "found",
    [one(NEW), one(OLD, events=OLD_EVENTS), one(INFERENCE)],
    ids=["conventions of today", "conventions up to 1.36", "OpenInference"],
)
def test_a_call_reads_the_same_however_it_was_named(found: Span) -> None:
    assert span_role(found) == "call"
    call, answer = call_of(found)
    assert (list(call.messages), answer.model) == (TOLD, "gpt-1")
    assert (call.sampling.temperature_micro, call.sampling.max_tokens) == (500_000, 99)
    (sample,) = answer.samples
    assert (sample["text"], sample["finish"], sample["tool_calls"]) == ("Hello", "length", [CALL])
    assert (sample["token_ids"], sample["logprobs"], answer.prompt_token_ids) == (None, None, None)
    assert (answer.input_tokens, answer.output_tokens) == (11, 3)


def test_tools_in_a_conversation_are_messages_of_their_own() -> None:
    told = [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"b": 2}}]},
    ]
    call, _ = call_of(one({**NEW, "gen_ai.system_instructions": "", "gen_ai.input.messages": json.dumps(told)}))
    first, second = call.messages
    assert first["tool_calls"] == [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]
    assert second == {"role": "tool", "content": '{"b": 2}', "tool_call_id": "c1"}


def test_a_call_without_content_has_an_empty_message_and_no_sample() -> None:
    call, answer = call_of(one({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}))
    assert (call.messages, answer.samples, answer.input_tokens) == (({"role": "user", "content": ""},), (), None)


@pytest.mark.parametrize(("name", "kept"), [("temperature", 9.0), ("max_tokens", 0), ("top_p", "high"), ("seed", -1)])
def test_a_parameter_out_of_range_is_recorded_as_the_default(name: str, kept: Any) -> None:
    call, _ = call_of(one({**OLD, f"gen_ai.request.{name}": kept}))
    rest = {"temperature_micro": 500_000, "max_tokens": 99, "top_p_micro": 1_000_000, "seed": None}
    expected = rest | {"temperature": {"temperature_micro": 1_000_000}, "max_tokens": {"max_tokens": 1_000_000}}.get(
        name, {}
    )
    assert {field: getattr(call.sampling, field) for field in rest} == expected
    assert call.asked[name] == kept


@pytest.mark.parametrize(
    ("own", "role"),
    [
        ({"gen_ai.operation.name": "execute_tool"}, "tool"),
        ({"openinference.span.kind": "TOOL"}, "tool"),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m"}, "other"),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.system": "x", "gen_ai.request.model": "m"}, "other"),
        ({"openinference.span.kind": "CHAIN"}, "other"),
        ({"gen_ai.system": "openai", "gen_ai.request.model": "m"}, "call"),
        ({"http.request.method": "GET"}, "other"),
    ],
)
def test_what_of_a_run_a_span_is(own: dict[str, Any], role: str) -> None:
    assert span_role(one(own)) == role


@pytest.mark.parametrize(
    ("name", "action"), [("Get Weather!", "get_weather"), ("7up", "tool_7up"), ("ÄÖ", "tool"), ("x" * 80, "x" * 64)]
)
def test_a_tool_is_a_step_with_an_open_name(name: str, action: str) -> None:
    (found,) = read(tool(2, name))
    used = tool_use(found)
    assert (used.action, used.argument, used.result, used.has_failed) == (action, '{"q": "boats"}', "3 boats", False)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (score("quality", 0.75), [("quality", True, 0.75)]),
        (score("Is it good?", 0.25), [("Is-it-good", False, 0.25)]),
        (score("reward", label="pass"), [("reward", True, None)]),
        (score("reward", 0.9, "fail"), [("reward", False, 0.9)]),
        (score("quality", 7.0, "pass"), []),
        (score("quality"), []),
        (score("?!", 1.0), []),
    ],
)
def test_an_evaluation_result_is_a_score_between_0_and_1_or_a_known_label(event: Any, expected: list[Any]) -> None:
    found = span_scores(one({}, events=[event]))
    assert [(each.judge, each.passed, each.score) for each in found] == expected


def test_a_trace_becomes_the_events_of_a_run() -> None:
    spans = read(span(1), chat(2, own={"gen_ai.conversation.id": "talk 7"}), tool(3), span(4, {"http.route": "/"}))
    made = events_of_spans(TraceProgress(), unseen_spans(TraceProgress(), spans), "otlp")
    started, called, step, finished, kept = made.events
    assert isinstance(started, RunStarted)
    assert isinstance(called, ModelCalled)
    assert isinstance(step, StepTaken)
    assert isinstance(finished, RunFinished)
    assert isinstance(kept, SpansKept)
    assert (started.spec.group_id, started.spec.template) == ("ext-otel-talk 7", "shop-agent")
    usage = finished.usage
    assert (usage.input_tokens, usage.output_tokens, usage.actions, usage.wall_microseconds) == (7, 2, 1, 1_000_000)
    assert len(kept.spans) == 4
    raw = next(blob for blob in made.blobs if blob.digest == kept.raw)
    assert read_raw_spans(raw.body) == spans
    named = {called.messages, called.completion, step.argument, step.observation, started.plan}
    assert named <= {blob.digest for blob in made.blobs}


def test_json_and_protobuf_of_one_request_are_the_same_spans() -> None:
    whole = chat(2, own={"list": [1, "two", 0.5, {"deep": True}], "whole": 2**60}, status={"code": 2, "message": "no"})
    whole["links"] = [{"traceId": whole["traceId"], "spanId": "ab" * 8, "attributes": []}]
    sent = request(whole)
    assert spans_of_protobuf(_as_protobuf(sent).SerializeToString()) == spans_of_json(json.dumps(sent).encode())


def _as_protobuf(sent: dict[str, Any]) -> ExportTraceServiceRequest:
    """A request of one span in protobuf, put together field by field."""
    made = ExportTraceServiceRequest()
    (of_resource,) = sent["resourceSpans"]
    (of_scope,) = of_resource["scopeSpans"]
    resource = made.resource_spans.add()
    _fill(resource.resource.attributes, of_resource["resource"]["attributes"])
    scope = resource.scope_spans.add()
    scope.scope.name = of_scope["scope"]["name"]
    for each in of_scope["spans"]:
        own = scope.spans.add(
            trace_id=bytes.fromhex(each["traceId"]),
            span_id=bytes.fromhex(each["spanId"]),
            parent_span_id=bytes.fromhex(each["parentSpanId"]),
            name=each["name"],
            kind=each["kind"],
            start_time_unix_nano=int(each["startTimeUnixNano"]),
            end_time_unix_nano=int(each["endTimeUnixNano"]),
        )
        _fill(own.attributes, each["attributes"])
        own.status.code, own.status.message = each["status"]["code"], each["status"]["message"]
        for link in each["links"]:
            own.links.add(trace_id=bytes.fromhex(link["traceId"]), span_id=bytes.fromhex(link["spanId"]))
    return made


def _fill(attributes: Any, pairs: list[dict[str, Any]]) -> None:
    for pair in pairs:
        _set(attributes.add(key=pair["key"]).value, pair["value"])


def _set(place: Any, given: dict[str, Any]) -> None:
    ((kind, plain),) = given.items()
    match kind:
        case "stringValue":
            place.string_value = plain
        case "intValue":
            place.int_value = int(plain)
        case "doubleValue":
            place.double_value = plain
        case "boolValue":
            place.bool_value = plain
        case "arrayValue":
            for each in plain["values"]:
                _set(place.array_value.values.add(), each)
        case _:
            _fill(place.kvlist_value.values, plain["values"])


def test_what_protobuf_can_hold_and_json_cannot_is_kept_as_text() -> None:
    made = ExportTraceServiceRequest()
    own = made.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\1" * 16, span_id=b"\1" * 8)
    own.attributes.add(key="bytes").value.bytes_value = b"\xff\0"
    own.attributes.add(key="nan").value.double_value = float("nan")
    own.attributes.add(key="nul").value.string_value = "a\0b"
    found = spans_of_protobuf(made.SerializeToString())
    assert found[0].attributes == {"bytes": "/wA=", "nan": "nan", "nul": "a\0b"}
    assert read_raw_spans(raw_spans(found)) == found


@pytest.mark.parametrize(
    "changes",
    [{"traceId": "0" * 32}, {"traceId": "ab"}, {"spanId": ""}, {"parentSpanId": "xyz"}, {"startTimeUnixNano": "soon"}],
)
def test_a_span_with_a_bad_id_or_time_has_a_fault(changes: dict[str, Any]) -> None:
    (found,) = read(span(2, **changes))
    assert span_fault(found) is not None
    assert span_fault(one({})) is None


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"resourceSpans": 1}', b'{"resourceSpans": [' + b"[" * 5_000, b"\xff"]
)
def test_a_body_that_is_no_otlp_is_refused_with_what_was_expected(body: bytes) -> None:
    with pytest.raises(BadTraces, match="expected an ExportTraceServiceRequest"):
        spans_of_json(body)


@given(st.binary(max_size=300))
def test_any_bytes_are_spans_or_refused(body: bytes) -> None:
    for read_spans in (spans_of_protobuf, spans_of_json):
        try:
            found = read_spans(body)
        except BadTraces:
            continue
        assert all(isinstance(each, Span) for each in found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        *NEW,
        *OLD,
        *INFERENCE,
        "gen_ai.prompt",
        "gen_ai.completion",
        "gen_ai.prompt.0.role",
        "gen_ai.prompt.0",
        "gen_ai.completion.0.content",
        "gen_ai.tool.name",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.definitions",
        "gen_ai.response.finish_reasons",
        "gen_ai.evaluation.name",
        "gen_ai.evaluation.score.value",
        "gen_ai.evaluation.score.label",
        "gen_ai.conversation.id",
        "gen_ai.agent.name",
        "gen_ai.event.content",
        "input.value",
        "output.value",
        "message",
        "content",
        "tool_calls",
        "role",
        "id",
    ]
)
OWN = st.dictionaries(NAMES, VALUES | VALUES.map(lambda each: json.dumps(each, default=str)), max_size=6)
KINDS = st.sampled_from(["chat", "execute_tool", "invoke_agent", ""])
EVENT = st.tuples(
    st.sampled_from(["gen_ai.user.message", "gen_ai.tool.message", "gen_ai.choice", "gen_ai.evaluation.result"]), OWN
)


@given(OWN, KINDS, st.lists(EVENT, max_size=3), st.integers(0, 3))
def test_whatever_attributes_hold_the_events_can_be_stored(
    own: dict[str, Any], kind: str, events: list[tuple[str, Any]], status: int
) -> None:
    """The events are checked as the log checks them: exact integers, text that PostgreSQL holds, JSON in blobs."""
    found = Span(
        trace="1" * 32,
        span="2" * 16,
        status=status,
        start=5,
        attributes={**own, "gen_ai.operation.name": kind},
        events=tuple(SpanEvent(name=name, attributes=each) for name, each in events),
    )
    made = events_of_spans(TraceProgress(), [found], "otlp")
    encode_events(Append("run/x", made.events, "otel:t"))
    assert all(json.loads(blob.body) is not None for blob in made.blobs if blob.media_type.endswith("json"))


@pytest.mark.parametrize("name", ["gen_ai.tool.definitions", "llm.invocation_parameters"])
def test_json_text_of_any_depth_makes_events(name: str) -> None:
    """Text that could be read and not be written again, a few levels further down the stack, broke the request."""
    for depth in (*range(0, 900, 150), *range(900, 1_010)):
        text = '{"a":' + "[" * depth + "]" * depth + "}"
        found = one({"gen_ai.operation.name": "chat", name: text})
        assert events_of_spans(TraceProgress(), [found], "otlp").events


def test_a_compressed_body_is_inflated_up_to_a_bound() -> None:
    body = b"spans " * 100
    assert inflate_body(gzip.compress(body), 600) == body
    assert inflate_body(zlib.compress(body), 600) == body
    assert inflate_body(gzip.compress(body[:300]) + gzip.compress(body[300:]), 600) == body
    assert inflate_body(b"", 600) == b""
    with pytest.raises(TracesTooLarge, match="more than 599 bytes once inflated"):
        inflate_body(gzip.compress(body), 599)
    with pytest.raises(BadTraces, match="ends too early"):
        inflate_body(gzip.compress(body)[:-9], 600)
    with pytest.raises(BadTraces, match="no gzip"):
        inflate_body(b"not compressed", 600)


def test_times_and_token_totals_that_no_event_can_hold_are_unknown() -> None:
    most = {"gen_ai.usage.input_tokens": 2**53 - 1}
    spans = read(span(1), chat(2, own=most), chat(3, own=most))
    made = events_of_spans(TraceProgress(), [*spans[1:], msgspec.structs.replace(spans[0], end=2**64 - 1)], "otlp")
    (finished,) = (event for event in made.events if isinstance(event, RunFinished))
    assert (finished.usage.wall_microseconds, finished.usage.input_tokens) == (None, None)
    assert finished.usage.output_tokens == 4


def test_a_body_of_very_many_parts_is_refused() -> None:
    large = bytes(range(256)) * 1_000
    assert inflate_body(gzip.compress(large, 0) + gzip.compress(b"") * 999, len(large)) == large
    with pytest.raises(BadTraces, match="more than 1000 parts"):
        inflate_body(gzip.compress(b"") * 1_001, 600)


def test_a_chat_is_a_run_with_a_call_for_each_answer() -> None:
    line = {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Boats?"},
            {"role": "assistant", "content": "Three."},
        ],
        "reward": 0.75,
        "id": "a-1",
        "tools": [],
    }
    found = chat_run(line)
    assert (found.run, [each.type for each in found.events]) == (
        "ext-chat-a-1",
        ["RunStarted", "ModelCalled", "ModelCalled", "RunFinished", "RewardGraded"],
    )
    graded = found.events[-1]
    assert isinstance(graded, RewardGraded)
    assert (graded.score, graded.passed) == (750_000, True)
    assert chat_run(line | {"id": "a b"}).run == chat_run(line | {"id": "a b"}).run != "ext-chat-a b"
    unnamed = {"messages": line["messages"]}
    for passed in (True, False):
        alone = chat_run(unnamed | {"passed": passed}).events[-1]
        assert isinstance(alone, RewardGraded)
        assert (alone.score, alone.passed) == (1_000_000 * passed, passed)
    assert chat_run(unnamed).run == chat_run(dict(unnamed)).run != chat_run(unnamed | {"reward": 1}).run


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": []},
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"messages": [{"role": "assistant", "content": "Hi"}]},
        {"reward": 2},
        {"reward": True},
        {"reward": 1, "passed": "yes"},
        {"passed": 1},
        {"id": ""},
        {"group": 7},
    ],
)
def test_a_chat_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    line = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    assert chat_run(line).events
    with pytest.raises(BadCall):
        chat_run(line | changes)


def test_an_answer_says_what_was_refused_and_is_empty_where_nothing_was() -> None:
    assert protobuf_answer(0, "") == b""
    assert b"why" in protobuf_answer(3, "why")
