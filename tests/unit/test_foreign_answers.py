from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from agents.envs.errors import BadDialect, ContractBroken, EnvironmentDown, EnvironmentRefused, LoginPage
from agents.envs.foreign.answers import (
    changed_fields,
    counts_of,
    graded_facts,
    is_unknown_task,
    mutations_of,
    state_fingerprint,
)
from agents.envs.foreign.client import ForeignClient
from agents.envs.foreign.dialect import Dialect, MutationFields, Paths, read_dialect

PLAIN = {"id": 1, "operation": "o", "target_type": "boat", "target_id": 7, "payload": {}}


def read(*rows: dict[str, object], since_id: int = 0, row: MutationFields | None = None) -> list[tuple[int, str, int]]:
    found = mutations_of({"mutations": list(rows)}, row or MutationFields(), since_id)
    return [(each.id, each.operation, each.at) for each in found]


def test_rows_without_ids_are_numbered_and_the_sites_own_keep_their_number() -> None:
    rows: list[dict[str, object]] = [{"op": "env_reset"}, {"op": "a"}, {"op": "b"}]
    assert read(*rows) == [(2, "a", 2), (3, "b", 3)]
    assert read(*rows, since_id=2) == [(3, "b", 3)]


@pytest.mark.parametrize(
    ("at", "read_as"),
    [
        (5, 5),
        (1.5, 1_500_000),
        ("2026-01-15T09:00:00Z", 1_768_467_600_000_000),
        ("2026-01-15T09:00:00", 1_768_467_600_000_000),
        ("2026-01-15T10:00:00+01:00", 1_768_467_600_000_000),
        ("yesterday", 1),
        (None, 1),
        (float("inf"), 1),
    ],
)
def test_times_become_whole_numbers(at: object, read_as: int) -> None:
    assert read({**PLAIN, "ts": at})[0][2] == read_as


@pytest.mark.parametrize(
    ("payload", "read_as"),
    [
        ({"a": [1]}, {"a": [1]}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"value": [1]}),
        ("hello", {"value": "hello"}),
        ("", {"value": ""}),
        (None, {}),
        (3, {"value": 3}),
    ],
)
def test_a_payload_is_an_object_whatever_it_was(payload: object, read_as: dict[str, object]) -> None:
    (found,) = mutations_of({"mutations": [{**PLAIN, "payload": payload}]}, MutationFields(), 0)
    assert found.payload == read_as
    assert found.target_id == "7"


def test_a_target_that_is_missing_is_said_to_be_none() -> None:
    (found,) = mutations_of({"mutations": [{"op": "login", "target_id": None}]}, MutationFields(), 0)
    assert (found.target_type, found.target_id) == ("-", "-")


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"mutations": {}},
        {"mutations": [1]},
        {"mutations": [PLAIN, PLAIN]},
        {"mutations": [{**PLAIN, "id": "x"}]},
        {"mutations": [{**PLAIN, "id": 0}]},
        {"mutations": [{**PLAIN, "id": 1.5}]},
    ],
)
def test_what_is_no_list_of_changes_is_an_error(facts: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        mutations_of(facts, MutationFields(), 0)


def test_a_grade_is_passed_as_it_says_and_scored_as_it_says() -> None:
    assert graded_facts({"passed": False, "score": 0.8}, "t")["score_micro"] == 800_000
    assert graded_facts({"passed": True}, "t") == {
        "task_id": "t", "passed": True, "score_micro": 1_000_000, "reasons": (), "diff": {},
    }  # fmt: skip
    assert graded_facts({"passed": False, "reasons": "no", "diff": [1]}, "t")["reasons"] == ["no"]
    with pytest.raises(ValueError, match="score"):
        graded_facts({"passed": True, "score": 1.2}, "t")


def test_an_unknown_task_is_told_by_its_reason_only_where_it_did_not_pass() -> None:
    reasons = ["no oracle registered for task_id='x'"]
    assert is_unknown_task({"passed": False, "reasons": reasons}, Dialect())
    assert not is_unknown_task({"passed": True, "reasons": reasons}, Dialect())
    assert not is_unknown_task({"passed": False, "reasons": ["nothing was done"]}, Dialect())
    assert not is_unknown_task({"passed": False, "reasons": reasons}, Dialect(unknown_task_reason=None))


def test_a_fingerprint_is_of_what_stays() -> None:
    volatile = Dialect().volatile
    one = {"seed": 42, "now": 1, "counts": {"a": 1}, "recent": [{"id": 1, "ts": 0.5}]}
    other = {"recent": [{"ts": 9.5, "id": 1}], "counts": {"a": 1}, "now": 2, "seed": 7}
    assert state_fingerprint(one, volatile) == state_fingerprint(other, volatile)
    assert state_fingerprint(one, volatile) != state_fingerprint({**one, "counts": {"a": 2}}, volatile)
    assert state_fingerprint(one, volatile) != state_fingerprint(one, volatile, ["a page"])
    assert state_fingerprint({"a": "\ud800"}, ()).startswith("sha256:")


def test_counts_are_those_named_or_the_whole_numbers() -> None:
    assert counts_of({"counts": {"a": 1, "b": "2"}, "boats": 3}) == {"a": 1}
    assert counts_of({"boats": 600, "seed": 7, "ok": True, "facets": {}}) == {"boats": 600}


def test_the_fields_by_which_two_answers_differ() -> None:
    one = {"now": 1, "deep": {"ts": 1, "x": 1}, "rows": [{"ts": 1}], "more": [1]}
    other = {"now": 2, "deep": {"ts": 2, "x": 1}, "rows": [{"ts": 2}], "more": [1, 2]}
    assert sorted(changed_fields(one, other)) == ["more", "now", "ts", "ts"]
    assert list(changed_fields(one, one)) == []


def test_a_dialect_is_read_from_json_and_from_toml(tmp_path: Path) -> None:
    as_json, as_toml = tmp_path / "d.json", tmp_path / "d.toml"
    as_json.write_text('{"site": "s", "seeding": "seed", "row": {"operation": ["op"]}}')
    as_toml.write_text('site = "s"\nseeding = "seed"\n[row]\noperation = ["op"]\n')
    assert read_dialect(as_json) == read_dialect(as_toml) == Dialect(
        site="s", seeding="seed", row=MutationFields(operation=("op",))
    )  # fmt: skip
    found = read_dialect(as_json)
    as_json.write_text(found.model_dump_json())
    assert read_dialect(as_json) == found


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("d.json", "{", "JSON"),
        ("d.toml", "= 1", "TOML"),
        ("d.json", '{"colour": "red"}', "colour"),
        ("d.json", '{"unknown_task_reason": "("}', "regular expression"),
        ("d.json", '{"seeding": "none"}', "only_seed"),
        ("d.json", '{"seeding": "seed", "paths": {"seed": null}}', "needs a path"),
        ("d.json", '{"one_instance": false}', "many instances"),
        ("d.json", '{"paths": {"state": "state"}}', "paths.state"),
    ],
)
def test_what_describes_no_dialect_is_said(tmp_path: Path, name: str, text: str, told: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(BadDialect, match=told):
        read_dialect(file)
    with pytest.raises(BadDialect, match="No such file"):
        read_dialect(tmp_path / "none.json")


def test_the_page_names_every_field_of_a_dialect() -> None:
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
    rows = [
        line.split("|")[1] for line in page.partition("### Describing a dialect")[2].splitlines() if line[:1] == "|"
    ]
    named = set(re.findall(r"`(?:paths|row)?(\.?\w+)`", "".join(rows)))
    wanted = {*Dialect.model_fields, *(f".{name}" for name in (*Paths.model_fields, *MutationFields.model_fields))}
    assert wanted - {"paths", "row"} - named == set()


def answering(status: int, content: bytes, kind: str, dialect: Dialect | None = None) -> ForeignClient:
    answer = httpx2.Response(status, content=content, headers={"content-type": kind})
    return ForeignClient("http://site.test", "token", dialect, transport=httpx2.MockTransport(lambda _: answer))


@pytest.mark.parametrize("status", [200, 307, 401])
def test_a_login_page_is_called_so(status: int) -> None:
    with pytest.raises(LoginPage, match="login page of a proxy"):
        answering(status, b"<html>", "text/html; charset=utf-8").health()


def test_only_the_named_statuses_mean_a_wrong_token() -> None:
    narrow = Dialect(refused=(401,))
    with pytest.raises(EnvironmentRefused):
        answering(401, b"{}", "application/json", narrow).health()
    with pytest.raises(ContractBroken, match="status 403"):
        answering(403, b"{}", "application/json", narrow).health()


def test_a_reset_that_says_no_is_none() -> None:
    with pytest.raises(ContractBroken, match="'ok': False"):
        answering(200, b'{"ok": false, "error": "busy"}', "application/json", Dialect(paths=Paths(seed=None))).reset(1)


def test_headers_go_on_every_call_and_the_token_never_to_the_pages() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"ok": True, "path": request.url.path, "calls": len(seen)})

    dialect = Dialect(headers={"x-preview": "p"}, page_url="http://pages.test", witnesses=("/boats",), seeding="reset")
    with ForeignClient("http://site.test", "s3cret", dialect, transport=httpx2.MockTransport(answer)) as client:
        instance = client.reset(1)
        assert client.page_headers == {"x-preview": "p"}
    assert instance.url == "http://pages.test/"
    assert all(each.headers["x-preview"] == "p" for each in seen)
    assert {each.url.host for each in seen if "X-Env-Admin" in each.headers} == {"site.test"}
    assert {each.url.host for each in seen if "X-Env-Admin" not in each.headers} == {"pages.test"}
    assert "x-preview" not in repr(dialect)


def test_a_health_that_says_other_things_under_our_names_is_healthy() -> None:
    for told in (b'{"ok": true, "site": 7, "tasks": 12}', b'{"tasks": ["a"]}', b"{}"):
        health = answering(200, told, "application/json").health()
        assert (health.site, health.tasks, health.instances) == ("foreign", (), 0)
    with pytest.raises(EnvironmentDown, match="health"):
        answering(200, b'{"ok": false}', "application/json").health()
