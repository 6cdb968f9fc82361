from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from api.app import create_app
from api.datasets.freeze import DatasetDiffers
from api.house import House
from api.routes.problems import STATUS, error_status
from api.tokens import revoke
from eventlog.blobs import PostgresBlobs
from eventlog.database import open_engine
from eventlog.errors import BlobDamaged, BrokenChain, CorruptRow
from eventlog.events import RewriteWon
from eventlog.postgres import PostgresStore
from projections.engine.projector import Projector
from tests import strange
from tests.conftest import Database

from .test_rest_samples import append


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


@pytest.mark.reads
def test_health_is_open_and_names_every_projection(house: House) -> None:
    answer = TestClient(create_app(house)).get("/healthz")
    assert answer.status_code == 200
    body = answer.json()
    assert (body["status"], body["head"], answer.headers["X-Log-Position"]) == ("ok", 0, "0")
    assert body["projections"]["runs"] == {"position": 0}


def test_reads_of_a_parked_projection_answer_503_and_all_others_still_answer(
    client: TestClient, house: House, empty_database: Database
) -> None:
    strange.append(empty_database, "RewardGraded", {"run": 7})
    house.projector.catch_up()
    standing = client.get("/healthz").json()["projections"]
    assert "parked_at" in standing["rewards"]
    assert "parked_at" not in standing["rewrites"]
    refused = client.get("/v1/failure-clusters")
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "ProjectionParked")
    assert client.get("/v1/rewrites").status_code == 200


def test_a_win_of_a_rewrite_that_was_never_proposed_stops_nothing(client: TestClient, house: House) -> None:
    append(house.store, "rewrite/w", RewriteWon(rewrite="w", run="r", control_runs=(), control_successes=0))
    assert client.get("/v1/rewrites").status_code == 200
    assert "parked_at" not in client.get("/healthz").json()["projections"]["rewrites"]


def test_a_database_that_does_not_answer_is_503_without_its_particulars(house: House) -> None:
    lost = open_engine(house.engine.url.render_as_string(hide_password=False), "default")
    broken = House(house.settings, lost, PostgresStore(lost), PostgresBlobs(lost), Projector(lost))
    client = TestClient(create_app(broken), raise_server_exceptions=False)
    with house.engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND datname = current_database() AND usename = current_user"
            )
        ).all()
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "LogUnavailable")
    assert "SELECT" not in answer.text
    assert client.get("/healthz").status_code == 200
    lost.dispose()


@pytest.mark.reads
@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({}, "No bearer token"),
        ({"Authorization": "Basic dGVzdGVyOng="}, "No bearer token"),
        ({"Authorization": "Bearer fw_wrong"}, "not accepted"),
        ({"Authorization": "Bearer fw_\u00fc".encode("latin-1")}, "not accepted"),
    ],
)
@pytest.mark.usefixtures("client")
def test_without_a_token_every_resource_is_401(application: FastAPI, header: dict[str, str], words: str) -> None:
    caller = TestClient(application)
    paths = {path: methods for path, methods in application.openapi()["paths"].items() if path.startswith("/v1")}
    assert len(paths) > 10
    calls = [("get", "/openapi.json"), *((method, path) for path, methods in paths.items() for method in methods)]
    for method, path in calls:
        answer = caller.request(method, path, headers=header)
        assert answer.status_code == 401, path
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert words in answer.json()["error"]["message"]
        assert "X-Log-Position" not in answer.headers
    assert caller.post("/v1/events", content=b"{").status_code == 401


@pytest.mark.reads
def test_the_way_to_a_first_token_is_shown(house: House) -> None:
    answer = TestClient(create_app(house)).get("/v1/runs", headers={"Authorization": "Bearer x"})
    assert "No token was issued yet" in answer.json()["error"]["message"]


def test_a_revoked_token_is_refused_at_once(client: TestClient, house: House) -> None:
    assert client.get("/v1/runs").status_code == 200
    revoke(house.store, house.views(), "tester", "lost", "test")
    assert client.get("/v1/runs").status_code == 401


@pytest.mark.reads
def test_unknown_paths_and_methods_have_the_shape_of_every_error(client: TestClient) -> None:
    unknown = client.get("/v1/nothing")
    assert (unknown.status_code, set(unknown.json()["error"])) == (404, {"type", "message", "facts"})
    wrong = client.delete("/v1/runs")
    assert (wrong.status_code, wrong.json()["error"]["type"], wrong.headers["Allow"]) == (405, "HttpError", "GET")


@pytest.mark.reads
def test_an_error_is_a_problem_of_rfc_9457(client: TestClient) -> None:
    for path in ("/v1/runs/nobody", "/v1/nothing", "/v1/runs?limit=0", "/v1/runs?as_of=x"):
        answer = client.get(path)
        told = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert (told["status"], told["detail"]) == (answer.status_code, told["error"]["message"])
        assert told["type"] == f"urn:flywheel:error:{told['error']['type']}"
    assert client.get("/v1/runs?limit=0").json()["title"] == "Invalid request"


@pytest.mark.reads
def test_a_defect_answers_500_without_a_trace(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("api.queries.costs.CostState", fail)
    answer = client.get("/v1/costs")
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "InternalError")
    assert answer.headers["X-Log-Position"] == "1"
    assert "secret detail" not in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.reads
def test_a_statement_that_the_database_gave_up_is_503_and_says_to_try_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise OperationalError("SELECT secret", None, psycopg.errors.DeadlockDetected("deadlock detected"))

    monkeypatch.setattr("api.queries.costs.CostState", fail)
    answer = client.get("/v1/costs")
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "StatementEnded")
    assert "Try again" in answer.json()["error"]["message"]
    assert "secret" not in answer.text


def test_damage_is_a_defect_on_this_side_and_all_else_names_what_a_caller_can_do() -> None:
    assert {error_status(kind.__new__(kind)) for kind in (BrokenChain, CorruptRow, BlobDamaged, DatasetDiffers)} == {
        500
    }
    assert set(STATUS.values()) == {400, 401, 403, 404, 406, 408, 409, 410, 413, 415, 416, 422, 429, 502, 503}


@pytest.mark.reads
def test_the_document_describes_every_endpoint(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    tags = {tag["name"] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            assert told["summary"], (path, method)
            assert told["description"], (path, method)
            assert set(told["tags"]) <= tags
            assert ("security" in told) == (path not in {"/healthz", "/readyz"})
    assert "RunStarted" in document["components"]["schemas"]
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert _dangling(document) == set()


def _dangling(document: dict[str, object]) -> set[str]:
    """References that lead nowhere."""
    missing: set[str] = set()

    def walk(part: object) -> None:
        if isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str) and not _leads(document, reference):
                missing.add(reference)
            for item in part.values():
                walk(item)
        elif isinstance(part, list):
            for item in part:
                walk(item)

    walk(document)
    return missing


def _leads(document: object, reference: str) -> bool:
    for part in reference.removeprefix("#/").split("/"):
        if not isinstance(document, dict) or part not in document:
            return False
        document = document[part]
    return True


def test_nothing_heavy_is_imported_by_the_application() -> None:
    heavy = {"torch", "trl", "peft", "vllm", "llama_cpp", "transformers", "numpy", "pyarrow"}
    code = f"import sys, api.app; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_token_is_revoked_whatever_keys_its_holder_has_taken(client: TestClient, house: House) -> None:
    prices = {
        "type": "PriceBookSet",
        "version": 9,
        "per_action": 1,
        "per_second": 1,
        "per_thousand_input_tokens": 1,
        "per_thousand_output_tokens": 1,
    }
    taken = client.post("/v1/events", json={"stream": "prices", "events": [prices], "key": "token-revoke:tester"})
    assert taken.status_code == 201
    revoke(house.store, house.views(), "tester", "test", "test")
    assert client.get("/v1/runs").status_code == 401
