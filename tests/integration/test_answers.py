"""What a query returns is what REST answers, what the OpenAPI document says, and what commands print."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from fastapi.testclient import TestClient

from api.cli.main import run_command
from api.queries.encoding import encode_value
from api.routes.roles import least_role
from api.routes.schemas import ANSWERS
from eventlog.events import EVENT_TYPES, Event
from tests.conftest import Database

from .test_rest_time import paths

pytestmark = pytest.mark.reads

STRUCTS = {kind.__name__: kind for kind in ANSWERS}
RUN = "eval-1__challenger__marketplace.phone_reveal__seed10000__r0"
NEEDS = {
    "/v1/diff": {"from": "1"},
    "/v1/taint": {"run": RUN},
    "/v1/runs/{run_id}": {"run_id": RUN},
    "/v1/rewrites/{rewrite_id}": {"rewrite_id": "rw-445bcc60e953"},
    "/v1/reports/rewrites/{piece_id}": {"piece_id": "rw-445bcc60e953"},
    "/v1/verdicts/{evaluation}": {"evaluation": "eval-1"},
    "/v1/benchmarks/{benchmark}/ledger": {"benchmark": "marketplace-1"},
    "/v1/datasets/{digest}": {"digest": "c26c1acd3092144eac69da41b54adeef554250ecaeda53393bcf4fda32f46dd0"},
}
"""What a read cannot do without, by path."""


def _answer_of(path: str) -> str:
    content = paths()[path].get("get", {}).get("responses", {}).get("200", {}).get("content", {})
    schema: dict[str, str] = content.get("application/json", {}).get("schema", {})
    return schema.get("$ref", "").rpartition("/")[2]


TYPED = [path for path in paths() if _answer_of(path) and ("{" not in path or path in NEEDS)]
OPEN = [path for path in TYPED if least_role("GET", path) != "admin"]


def _event(kind: type, value: Any) -> Event:
    assert kind is Event
    return EVENT_TYPES[value["type"]].model_validate_json(json.dumps(value))


def check_answer(path: str, caller: TestClient) -> None:
    """Assert that a path's answer is the struct that the document names."""
    needed = NEEDS.get(path, {})
    asked = {name: value for name, value in needed.items() if f"{{{name}}}" not in path}
    answer = caller.get(path.format(**needed), params=asked)
    assert answer.status_code == 200, answer.text
    found = msgspec.json.decode(answer.content, type=STRUCTS[_answer_of(path)], dec_hook=_event)
    assert msgspec.json.encode(found, enc_hook=encode_value) == answer.content


@pytest.mark.parametrize("path", OPEN)
def test_an_answer_is_the_struct_that_the_document_names(path: str, client: TestClient) -> None:
    check_answer(path, client)


SAME = [
    (("outcomes",), "/v1/outcomes", "outcomes"),
    (("diff", "--from", "100", "--to", "400"), "/v1/diff?from=100&to=400", "diff"),
    (("diff", "--from", "1"), "/v1/diff?from=1", "diff"),
]


@pytest.mark.parametrize(("words", "path", "key"), SAME, ids=str)
def test_a_command_prints_what_rest_answers(
    words: tuple[str, ...], path: str, key: str, client: TestClient, flywheel: Any
) -> None:
    assert flywheel(*words) == client.get(path).json()[key]


MARKED = [
    ("rewrites", "rewrites"),
    ("gate", "verdicts"),
    ("benchmark", "benchmarks"),
    ("dataset", "datasets"),
]
"""The commands whose list marks each row with more than REST answers, and the path and key of the answer."""


@pytest.mark.parametrize(("group", "path"), MARKED)
def test_a_command_lists_the_rows_that_rest_answers_with_marks_of_its_own(
    group: str, path: str, client: TestClient, flywheel: Any
) -> None:
    rows = client.get(f"/v1/{path}").json()[path]
    printed = flywheel(group, "list")
    assert [{name: row[name] for name in own} for row, own in zip(printed, rows, strict=True)] == rows


def test_a_ledger_is_the_same_on_the_command_line_and_over_rest(client: TestClient, flywheel: Any) -> None:
    answer = client.get("/v1/benchmarks/marketplace-1/ledger").json()
    assert flywheel("gate", "ledger") == [answer["ledger"]]


def test_a_run_is_the_same_in_a_list_by_itself_and_on_the_command_line(client: TestClient, flywheel: Any) -> None:
    listed = client.get("/v1/runs", params={"limit": 1000}).json()["runs"]
    alone = client.get(f"/v1/runs/{RUN}").json()["run"]
    row = next(row for row in listed if row["run"] == RUN)
    assert row == {**alone, "reward": row["reward"]}
    printed = flywheel("runs", "show", RUN)
    assert {name: printed[name] for name in alone} == alone
    assert printed in [{**each, "events": printed["events"]} for each in flywheel("runs", "list", "--limit", "1000")]


def test_a_page_of_runs_continues_where_the_last_one_ended(client: TestClient, flywheel: Any) -> None:
    every = [row["run"] for row in client.get("/v1/runs", params={"limit": 1000}).json()["runs"]]
    first = client.get("/v1/runs", params={"limit": 5}).json()
    assert first["next"] == every[4]
    printed = flywheel("runs", "list", "--limit", "5", "--after", first["next"])
    assert [row["run"] for row in printed] == every[5:10]


@pytest.fixture
def flywheel(database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command on the golden log: what it prints as JSON."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(database.keys))

    def run(*words: str) -> Any:
        assert run_command([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run
