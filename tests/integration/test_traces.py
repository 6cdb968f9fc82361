"""Traces over HTTP: recorded once, as runs of whoever sent them, and answered once they are committed."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from api.app import create_app
from api.datasets.freeze import build_dataset
from api.history.disown import forged_events
from api.house import House
from api.ingest.runs_of_traces import TraceEvents, TraceProgress, events_of_spans
from api.ingest.spans import Span, read_raw_spans
from api.ingest.traces import TraceLog, TraceSender
from api.tokens import issue
from eventlog.blobs import Blob
from eventlog.blobs.conversations import get_messages
from eventlog.blobs.postgres import PostgresBlobs
from eventlog.errors import LogUnavailable
from eventlog.events import (
    GrpoQuery,
    JudgeOpined,
    ModelCalled,
    RewardGraded,
    RunFinished,
    SpansKept,
    TraceSource,
    Usage,
)
from projections.rewards import REWARDS
from projections.runs import RUNS
from tests.served import served_app
from tests.traced import TRACE, chat, request, score, span, tool

RUN = f"ext-otel-{TRACE}"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def house(empty_house: House) -> House:
    return empty_house


def types(house: House, run: str = RUN) -> list[str]:
    return [each.event.type for each in house.store.read(stream=f"run/{run}")]


def events(house: House, kind: type, run: str = RUN) -> list[Any]:
    return [each.event for each in house.store.read(stream=f"run/{run}") if isinstance(each.event, kind)]


def send(client: TestClient, *spans: dict[str, Any], headers: Mapping[str, str] | None = None) -> Any:
    answer = client.post("/v1/traces", content=json.dumps(request(*spans)), headers={**JSON, **(headers or {})})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_exporter_of_the_sdk_is_understood(house: House) -> None:
    """Protobuf in gzip, in batches, as an instrumented program sends it."""
    token = issue(house.store, "agent", "test", "ingest")
    with served_app(house) as url:
        exporter = OTLPSpanExporter(
            f"{url}/v1/traces", headers={"Authorization": f"Bearer {token}"}, compression=Compression.Gzip
        )
        provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
        provider.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=2))
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}) as root:
            for number in range(3):
                with tracer.start_as_current_span("chat m") as called:
                    called.set_attributes(
                        {
                            "gen_ai.operation.name": "chat",
                            "gen_ai.provider.name": "openai",
                            "gen_ai.request.model": "m",
                            "gen_ai.input.messages": '[{"role": "user", "content": "Hi"}]',
                            "gen_ai.output.messages": '[{"role": "assistant", "content": "Hello"}]',
                        }
                    )
                with tracer.start_as_current_span("execute_tool look") as used:
                    used.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"look_{number}"})
            trace = f"{root.get_span_context().trace_id:032x}"
        provider.shutdown()
    run = f"ext-otel-{trace}"
    counts = Counter(types(house, run))
    assert counts == {
        "RunStarted": 1,
        "ModelCalled": 3,
        "StepTaken": 3,
        "RunFinished": 1,
        "SpansKept": counts["SpansKept"],
    }
    assert sum(len(each.spans) for each in events(house, SpansKept, run)) == 7
    first = events(house, ModelCalled, run)[0]
    assert get_messages(house.blobs, first.messages) == [{"role": "user", "content": "Hi"}]
    state = house.views().get(RUNS, run)
    assert state is not None
    assert (state.status, state.template, state.actions) == ("completed", "shop", 3)
    assert {each.actor for each in house.store.read(stream=f"run/{run}")} == {"otel:agent"}
    assert forged_events(house.views()) == ()


def test_spans_that_come_again_in_other_batches_change_nothing(client: TestClient, house: House) -> None:
    """A tenth of the spans is sent twice, in another order and in other batches, the root in the middle."""
    spans = [span(1), *(chat(number) if number % 2 else tool(number) for number in range(2, 42))]
    draw = Random(1)  # noqa: S311
    sent = [*spans, *draw.sample(spans, 4)]
    draw.shuffle(sent)
    for start in range(0, len(sent), 7):
        assert send(client, *sent[start : start + 7]) == {}
    counts = Counter(types(house))
    assert (counts["ModelCalled"], counts["StepTaken"], counts["RunFinished"]) == (20, 20, 1)
    kept = [each for event in events(house, SpansKept) for each in event.spans]
    assert (len(kept), len(set(kept))) == (41, 41)
    assert [each.index for each in events(house, ModelCalled)] == list(range(20))
    head = house.store.head()
    for start in range(0, len(sent), 5):
        assert send(client, *sent[start : start + 5]) == {}
    assert house.store.head() == head
    raw = [each for event in events(house, SpansKept) for each in read_raw_spans(house.blobs.get(event.raw).body)]
    assert {each.span for each in raw} == set(kept)


def test_what_another_process_recorded_is_known(client: TestClient, house: House) -> None:
    send(client, chat(2))
    with TestClient(create_app(house), headers=dict(client.headers)) as other:
        assert send(other, chat(2), chat(3)) == {}
    assert send(client, chat(2), chat(3), chat(4)) == {}
    assert Counter(types(house)) == {"RunStarted": 1, "ModelCalled": 3, "SpansKept": 3}


def test_late_spans_are_recorded_until_the_reward_closes_the_run(client: TestClient, house: House) -> None:
    send(client, span(1), chat(2))
    assert send(client, chat(3)) == {}
    assert types(house)[-2:] == ["ModelCalled", "SpansKept"]
    assert client.post(f"/v1/runs/{RUN}/reward", json={"score": 0.5, "passed": True}).status_code == 200
    head = house.store.head()
    assert send(client, chat(2), chat(3)) == {}
    partial = send(client, chat(3), chat(4))["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "has ended (RewardGraded)" in partial["errorMessage"]
    assert house.store.head() == head


def test_where_a_blob_cannot_be_put_no_event_names_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [Span(trace=f"{number + 1:032x}", span="1" * 16, name="chat") for number in range(25)]
    sender = TraceSender("token:t", "t", may_write_others=False)

    def fail(_blobs: PostgresBlobs, _given: Iterable[Blob]) -> tuple[str, ...]:
        raise LogUnavailable(actual="gone")

    with monkeypatch.context() as patched:
        patched.setattr(PostgresBlobs, "put", fail)
        with pytest.raises(LogUnavailable):
            TraceLog(house).record(sender, spans, "otlp")
    assert house.views().find(RUNS, "ext-otel-") == {}
    assert TraceLog(house).record(sender, spans, "otlp").recorded == len(spans)


def test_a_root_that_failed_halts_the_run_and_grpo_refuses_calls_without_tokens(
    client: TestClient, house: House
) -> None:
    talk: dict[str, Any] = {"own": {"gen_ai.conversation.id": "talk"}}
    send(client, chat(2, **talk), span(1, status={"code": 2}))
    (ended,) = events(house, RunFinished)
    assert (ended.status, ended.usage.input_tokens, ended.usage.output_tokens) == ("halted", 7, 2)
    other: dict[str, Any] = {"traceId": "9" * 32}
    send(client, chat(2, **talk, **other), span(1, **other, events=[score("reward", 0.0)]))
    client.post(f"/v1/runs/{RUN}/reward", json={"score": 1, "passed": True})
    assert house.views().get(RUNS, RUN).group == "ext-otel-talk"  # type: ignore[union-attr]
    wanted: tuple[tuple[Any, str], ...] = ((("tester",), "no_token_ids"), ("none", "outside"))
    for outside, refused in wanted:
        query = GrpoQuery(reward="score", outside=outside)
        judged = build_dataset(house.store, house.blobs, house.views(), query)
        assert [each.reason for each in judged.refused] == [refused]
    built = build_dataset(house.store, house.blobs, house.views(), GrpoQuery(reward="score"))
    assert (built.rows.height, [(each.reason, each.runs) for each in built.refused]) == (0, [("no_token_ids", 2)])


def test_two_tokens_cannot_write_to_one_trace(client: TestClient, house: House) -> None:
    tokens = {name: issue(house.store, name, "test", "ingest") for name in ("one", "two", "reader")}
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    assert send(client, chat(2), headers=headers["one"]) == {}
    head = house.store.head()
    for spans in ([chat(2)], [chat(3)], [chat(2), chat(4)], [chat(3)]):
        partial = send(client, *spans, headers=headers["two"])["partialSuccess"]
        assert partial["rejectedSpans"] == str(len(spans))
        assert "another token" in partial["errorMessage"]
    mine = chat(3, traceId="9" * 32)
    partial = send(client, chat(3), mine, headers=headers["two"])["partialSuccess"]
    assert (partial["rejectedSpans"], types(house, f"ext-otel-{'9' * 32}")) == (
        "1",
        ["RunStarted", "ModelCalled", "SpansKept"],
    )
    assert house.store.head() == head + 3
    assert send(client, chat(3)) == {}  # the role operate may
    assert send(client, chat(4), headers=headers["one"]) == {}


def test_scores_of_a_runs_own_spans_are_opinions_and_its_reward(client: TestClient, house: House) -> None:
    send(client, chat(2, events=[score("quality", 0.75)]))
    assert "JudgeOpined" not in types(house)  # the run goes on
    send(client, chat(3, events=[score("reward", 0.9, "pass")]))
    assert send(client, span(1)) == {}
    found = house.views().get(REWARDS, RUN)
    assert found is not None
    assert (found.score, found.passed) == (900_000, True)
    (opinion,) = events(house, JudgeOpined)
    assert (opinion.model, opinion.score) == ("tester:quality", 750_000)
    head = house.store.head()
    assert send(client, span(1), chat(2, events=[score("quality", 0.75)])) == {}
    assert house.store.head() == head


def test_scores_that_a_process_died_before_reporting_are_reported_with_the_next_spans(
    client: TestClient, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(client, chat(2, events=[score("quality", 0.75), score("reward", 1.0)]))
    with monkeypatch.context() as patch:
        patch.setattr("api.ingest.traces.report_scores", lambda *_: ())
        send(client, span(1))
    assert "RewardGraded" not in types(house)
    with TestClient(create_app(house), headers=dict(client.headers)) as other:
        assert send(other, span(1)) == {}
    assert types(house)[-2:] == ["JudgeOpined", "RewardGraded"]


def test_a_second_reward_is_refused_and_said(client: TestClient, house: House) -> None:
    spans = span(1, events=[score("reward", 1.0), score("reward", 0.0)])
    assert "has the reward" in send(client, spans)["partialSuccess"]["errorMessage"]
    assert [each.score for each in events(house, RewardGraded)] == [1_000_000]


def test_an_answer_to_protobuf_says_which_spans_were_refused(client: TestClient, house: House) -> None:
    made = ExportTraceServiceRequest()
    spans = made.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=b"\1" * 16, span_id=b"\1" * 8, name="whole")
    spans.add(trace_id=b"\1" * 3, span_id=b"\1" * 8, name="short")
    answer = client.post(
        "/v1/traces", content=made.SerializeToString(), headers={"Content-Type": "application/x-protobuf"}
    )
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    said = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert said.rejected_spans == 1
    assert "Trace id '010101'" in said.error_message
    assert types(house, "ext-otel-" + "01" * 16) == ["RunStarted", "RunFinished", "SpansKept"]


def test_a_trace_that_makes_no_event_is_refused_and_the_others_are_recorded(
    client: TestClient, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(progress: TraceProgress, spans: Sequence[Span], source: TraceSource) -> TraceEvents:
        if spans[0].trace == TRACE:
            Usage.model_validate({"actions": -1})
        return events_of_spans(progress, spans, source)

    monkeypatch.setattr("api.ingest.traces.events_of_spans", make)
    partial = send(client, chat(2), chat(3), chat(2, traceId="9" * 32))["partialSuccess"]
    assert partial["rejectedSpans"] == "2"
    assert f"Trace {TRACE} makes no event" in partial["errorMessage"]
    assert types(house) == []
    assert types(house, f"ext-otel-{'9' * 32}") == ["RunStarted", "ModelCalled", "SpansKept"]


WHOLE = json.dumps(request(chat(2))).encode()


@pytest.mark.parametrize(
    ("body", "headers", "status", "kind"),
    [
        (b"{}", JSON, 400, "BadTraces"),
        (b"\xff\xff", {"Content-Type": "application/x-protobuf"}, 400, "BadTraces"),
        (gzip.compress(WHOLE)[:-10], {**JSON, "Content-Encoding": "gzip"}, 400, "BadTraces"),
        (gzip.compress(b" " * 2**25 + WHOLE), {**JSON, "Content-Encoding": "gzip"}, 413, "TracesTooLarge"),
        (WHOLE, {"Content-Type": "text/plain"}, 415, "UnreadableType"),
        (WHOLE, {**JSON, "Content-Encoding": "br"}, 415, "UnreadableType"),
    ],
    ids=["no request", "no protobuf", "cut gzip", "bomb", "another type", "another encoding"],
)
def test_a_body_that_cannot_be_read_writes_nothing(
    client: TestClient, house: House, body: bytes, headers: dict[str, str], status: int, kind: str
) -> None:
    head = house.store.head()
    answer = client.post("/v1/traces", content=body, headers=headers)
    assert answer.status_code == status
    if headers["Content-Type"] == "application/x-protobuf":
        assert answer.headers["content-type"] == "application/x-protobuf"
        said = Status.FromString(answer.content)
        assert (said.code, "expected an ExportTraceServiceRequest" in said.message) == (Code.INVALID_ARGUMENT, True)
    else:
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["error"]["type"] == kind
        assert answer.json()["message"] == answer.json()["error"]["message"]
        assert answer.json()["code"] == (Code.RESOURCE_EXHAUSTED if status == 413 else Code.INVALID_ARGUMENT)
    assert house.store.head() == head


def test_every_refusal_of_the_route_is_a_status(client: TestClient, application: FastAPI) -> None:
    answer = client.post("/v1/traces", content=WHOLE, headers={**JSON, "Authorization": "Bearer nobody"})
    assert (answer.status_code, answer.json()["code"]) == (401, Code.UNAUTHENTICATED)
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "X-Log-Position" not in answer.headers
    answer = client.post("/v1/traces", params={"nothing": "1"}, content=WHOLE, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (422, Code.INVALID_ARGUMENT)
    assert answer.headers["X-Log-Position"]
    assert client.get("/v1/traces").json()["code"] == Code.INVALID_ARGUMENT
    assert client.get("/v1/runs/nothing").headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("media", ["application/json", "application/x-protobuf"])
def test_a_defect_on_this_side_is_a_status_too(media: str, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object) -> TraceLog:
        raise RuntimeError("a defect")

    monkeypatch.setattr("api.routes.traces._trace_log", fail)
    answer = client.post("/v1/traces", content=b"", headers={"Content-Type": media})
    assert (answer.status_code, answer.headers["content-type"]) == (500, media)
    assert answer.headers["X-Log-Position"]
    if media == "application/json":
        assert (answer.json()["code"], answer.json()["error"]["type"]) == (Code.INTERNAL, "InternalError")
    else:
        said = Status.FromString(answer.content)
        assert (said.code, "failed on this side" in said.message) == (Code.INTERNAL, True)


def test_a_reader_may_not_send_and_an_outage_says_when_to_try_again(
    client: TestClient, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = {"Authorization": f"Bearer {issue(house.store, 'reader', 'test', 'read')}"}
    assert client.post("/v1/traces", content=WHOLE, headers={**JSON, **reader}).status_code == 403

    def fail(*_: object) -> None:
        raise LogUnavailable(actual="gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(house.store), "append_encoded", fail)
        answer = client.post("/v1/traces", content=WHOLE, headers=JSON)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert send(client, chat(2)) == {}
    assert types(house) == ["RunStarted", "ModelCalled", "SpansKept"]
