"""Requests made from the OpenAPI document: every endpoint answers as it is described, and none of them breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import create_app
from api.house import House
from api.tokens import issue
from benchmarks.fuzz_rest.sent_traces import fuzzed_traces
from eventlog.blobs import Blob
from eventlog.database import open_engine
from tests.conftest import house_on
from tests.shared import Copies

from .test_rest_time import EVERY, paths

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 3
MANY = 300
NAMES = {
    "runs": "run",
    "rewrites": "rewrite",
    "benchmarks": "benchmark",
    "verdicts": "evaluation",
    "datasets": "dataset",
}
"""The lists of the golden log that have something in them, and the field that names it."""

NAMED = [path for method, path in EVERY if method == "GET" and "{" in path and path.split("/")[2] in NAMES]

ASKED = [
    pytest.param(method, path, mode, id=f"{mode.value}-{method}-{path}")
    for method, path in EVERY
    for mode in GenerationMode
    if (path, mode) not in {("/healthz", GenerationMode.NEGATIVE), ("/readyz", GenerationMode.NEGATIVE)}
]
"""Every endpoint with requests that keep to the document, and with others; nothing can be wrong with one for health."""

Service = tuple[FastAPI, Mapping[str, str], House]


@pytest.fixture(scope="module")
def service(copies: Copies) -> Iterator[Service]:
    """The application over a copy of the golden log, and the headers of a caller that it knows."""
    with copies() as create:
        database = create("seeded")
        engine = open_engine(database.app_url)
        house = house_on(engine, database)
        app = create_app(house)
        app.state.stream_seconds = 0
        yield app, {"Authorization": f"Bearer {issue(house.store, 'reader', 'test', 'admin')}"}, house
        engine.dispose()


@cache
def described() -> Any:
    """The document as schemathesis reads it."""
    document = create_app(cast("House", None)).openapi()
    return schemathesis.openapi.from_dict(document, config=schemathesis.Config(seed=1))


def ask(service: Service, method: str, path: str, mode: GenerationMode, examples: int, **fixed: Any) -> None:
    """Send requests to an endpoint, always the same ones, and check each answer against the document."""
    app, headers, _ = service
    strategy = described()[path][method].as_strategy(generation_mode=mode, **fixed)

    @settings(
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def answer_is_described(case: Case[Any]) -> None:
        answer = case.call(app=app, headers=dict(headers))
        case.validate_response(answer, checks=CHECKS)

    answer_is_described()


@pytest.mark.parametrize(("method", "path", "mode"), ASKED)
def test_every_endpoint_answers_as_described(service: Service, method: str, path: str, mode: GenerationMode) -> None:
    ask(service, method, path, mode, EXAMPLES)


@pytest.mark.parametrize("path", NAMED)
def test_what_the_log_holds_is_answered_as_described(service: Service, path: str) -> None:
    app, headers, _ = service
    kind, field = path.split("/")[2], path.partition("{")[2].partition("}")[0]
    listed = TestClient(app, headers=dict(headers)).get(f"/v1/{kind}").json()[kind]
    for row in (listed[0], listed[-1]):
        ask(service, "GET", path, GenerationMode.POSITIVE, 2, path_parameters={field: row[NAMES[kind]]})


def test_bytes_are_answered_as_described(service: Service) -> None:
    (address,) = service[2].blobs.put([Blob("text/html", b"<p>")])
    ask(service, "GET", "/v1/blobs/{address}", GenerationMode.POSITIVE, 2, path_parameters={"address": address})


def send_traces(service: Service, examples: int) -> None:
    """Send fuzzed OTLP, always the same, and check that each answer is described and no fault of the server."""
    app, headers, _ = service
    client = TestClient(app, headers=dict(headers), raise_server_exceptions=False)
    statuses = {int(status) for status in paths()["/v1/traces"]["post"]["responses"]}

    @settings(
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(sent=fuzzed_traces())
    def answer_is_described(sent: tuple[dict[str, str], bytes]) -> None:
        answer = client.post("/v1/traces", headers=sent[0], content=sent[1])
        assert answer.status_code in {status for status in statuses if status < 500}, answer.text

    answer_is_described()


def test_fuzzed_traces_are_answered_as_described(service: Service) -> None:
    send_traces(service, 25)


@pytest.mark.endure
def test_many_fuzzed_traces_are_answered_as_described(service: Service) -> None:
    send_traces(service, 20 * MANY)


@pytest.mark.endure
@pytest.mark.parametrize(("method", "path", "mode"), ASKED)
def test_every_endpoint_answers_many_requests_as_described(
    service: Service, method: str, path: str, mode: GenerationMode
) -> None:
    ask(service, method, path, mode, MANY)
