from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.house import House
from api.routes.roles import EVENTS
from api.tokens import issue
from eventlog.events import EVENT_TYPES, TokenRole
from projections.engine.compare import compare
from projections.groups import find_group
from tests.golden.test_golden_samples import sample

from .test_rest_samples import SampleRun, record, started_json


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


def body(executor: str = "theirs", **more: object) -> dict[str, Any]:
    return {"stream": "run/ext-1", "events": [{**started_json(), "executor": executor}], **more}


def test_an_append_is_committed_and_read_back(client: TestClient) -> None:
    posted = client.post("/v1/events", json=body(expect=0, cause=1))
    assert posted.status_code == 201
    assert posted.json() == {"outcome": "committed", "first": 2, "last": 2, "version": 1}
    assert posted.headers["X-Log-Position"] == "2"
    (event,) = client.get("/v1/events", params={"after": 1}).json()["events"]
    assert (event["actor"], event["cause"], event["type"], event["schema_version"]) == (
        "api:tester",
        1,
        "RunStarted",
        EVENT_TYPES["RunStarted"].schema_version,
    )
    assert event["event"] == {**started_json(), "executor": "theirs"}


def test_a_retry_with_the_same_key_is_repeated_and_other_content_is_refused(client: TestClient) -> None:
    key = {"Idempotency-Key": "k1"}
    assert client.post("/v1/events", json=body(), headers=key).status_code == 201
    again = client.post("/v1/events", json=body(key="ignored"), headers=key)
    assert (again.status_code, again.json()) == (200, {"outcome": "repeated", "first": 2, "last": 2, "version": None})
    reused = client.post("/v1/events", json=body("another", key="k1"))
    facts = reused.json()["error"]["facts"]
    assert (reused.status_code, facts["outcome"], facts["first"]) == (409, "key_reused", 2)
    assert {"expected", "actual"} <= set(facts)


def test_a_stale_expectation_is_a_conflict_with_both_versions(client: TestClient) -> None:
    client.post("/v1/events", json=body())
    answer = client.post("/v1/events", json=body("another", expect=0))
    facts = answer.json()["error"]["facts"]
    assert (answer.status_code, facts["outcome"], facts["expected"], facts["actual"]) == (409, "conflict", 0, 1)
    assert answer.headers["X-Log-Position"] == "2"


def changed(**fields: object) -> dict[str, Any]:
    return {"stream": "run/ext-1", "events": [{**started_json(), **fields}]}


@pytest.mark.reads
@pytest.mark.parametrize(
    ("content", "where"),
    [
        ({"stream": "s", "events": []}, "events"),
        ({"stream": "", "events": [started_json()]}, "stream"),
        ({"stream": "a\0b", "events": [started_json()]}, "stream"),
        (body(surprise=1), "surprise"),
        (body(expect=-1), "expect"),
        (body(cause=2**53), "cause"),
        ({"stream": "s", "events": [{"type": "Nothing"}]}, "events.0"),
        ({"stream": "s", "events": [{"run": "r1"}]}, "events.0"),
        (changed(surprise=1), "events.0.RunStarted.surprise"),
        (changed(run=7), "events.0.RunStarted.run"),
        (changed(plan="not a digest"), "events.0.RunStarted.plan"),
        (changed(applied=[{"piece": "p", "kind": "rewrite", "step": 1.5}]), "events.0.RunStarted.applied.0.step"),
        (changed(applied=[{"piece": "p", "kind": "rewrite", "step": 1e308}]), "events.0.RunStarted.applied.0.step"),
    ],
)
def test_what_is_not_of_the_vocabulary_is_422_and_not_written(
    client: TestClient, house: House, content: dict[str, Any], where: str
) -> None:
    answer = client.post("/v1/events", json=content)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["facts"]["errors"][0]["where"] == where
    assert house.store.head() == 1


@pytest.mark.reads
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"stream":"s","events":[NaN]}', b'"\xff"', b"9" * 5000])
def test_what_is_no_json_object_is_422(client: TestClient, content: bytes) -> None:
    assert client.post("/v1/events", content=content).status_code == 422


@pytest.mark.reads
@pytest.mark.parametrize("escaped", ["\\u0000", "\\ud800"])
def test_unstorable_text_is_422(client: TestClient, house: House, escaped: str) -> None:
    content = client.build_request("POST", "/v1/events", json=changed(executor="HERE")).content
    answer = client.post("/v1/events", content=content.replace(b"HERE", escaped.encode()))
    assert answer.status_code == 422
    assert house.store.head() == 1


def test_pages_join_up_and_end(client: TestClient, house: House) -> None:
    record(house.store, house.blobs, SampleRun("r1"), SampleRun("r2"))
    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        page = client.get("/v1/events", params={"after": after, "limit": 4}).json()
        seen += [event["position"] for event in page["events"]]
        after = page["next"]
    assert seen == list(range(1, house.store.head() + 1))


def test_events_are_filtered_by_stream_type_and_both(client: TestClient, house: House) -> None:
    record(house.store, house.blobs, SampleRun("r1"), SampleRun("r2"))
    get = client.get
    assert len(get("/v1/events", params={"stream": "run/r1"}).json()["events"]) == 7
    assert len(get("/v1/events", params={"type": "StepTaken"}).json()["events"]) == 6
    both = get("/v1/events", params={"stream": "run/r2", "type": "StepTaken", "limit": 2}).json()
    assert [event["event"]["index"] for event in both["events"]] == [0, 1]
    assert both["next"] == both["events"][-1]["position"]
    unknown = get("/v1/events", params={"type": "Nothing"})
    assert (unknown.status_code, "RunStarted" in unknown.json()["error"]["message"]) == (422, True)


@pytest.mark.reads
@pytest.mark.parametrize(
    "params",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": "nan"},
        {"limit": "1e3"},
        {"after": -1},
        {"after": 2**63},
        {"after": "9" * 5000},
        {"after": "NaN"},
        {"stream": "a\0b"},
        {"stream": ""},
        {"as_of": -1},
        {"as_of": 2**53},
        {"as_of": "NaN"},
        {"as_of": "yesterday"},
        {"as_of": "2026-01-01T00:00:00 00:00"},
        {"as_of": "\0"},
    ],
)
def test_a_query_that_makes_no_sense_is_422(client: TestClient, params: dict[str, Any]) -> None:
    answer = client.get("/v1/events", params=params)
    assert (answer.status_code, set(answer.json()["error"])) == (422, {"type", "message", "facts"})
    assert answer.headers["X-Log-Position"] == "1"


def test_as_of_is_a_position_or_a_time(client: TestClient, house: House) -> None:
    record(house.store, house.blobs, SampleRun("r1"))
    first = next(iter(house.store.read())).at
    whole = client.get("/v1/events", params={"as_of": 3})
    assert (len(whole.json()["events"]), whole.headers["X-Log-Position"]) == (3, "3")
    for at, position in (
        (first.isoformat(), "1"),
        (first.replace(tzinfo=None).isoformat(), "1"),
        ((first - timedelta(microseconds=1)).isoformat(), "0"),
        ((first + timedelta(days=1)).isoformat(), str(house.store.head())),
        ("0001-01-01T00:00:00+23:59", "0"),
        ("9999-12-31T23:59:59-23:59", str(house.store.head())),
    ):
        answer = client.get("/v1/events", params={"as_of": at})
        assert (answer.status_code, answer.headers.get("X-Log-Position")) == (200, position), at
    ahead = client.get("/v1/events", params={"as_of": 10_000})
    assert (ahead.status_code, ahead.json()["error"]["facts"]) == (409, {"expected": 10_000, "actual": 8})


def test_concurrent_callers_leave_one_log_and_exact_projections(client: TestClient, house: House) -> None:
    def work(worker: int) -> list[int]:
        statuses = []
        for turn in range(5):
            run = f"ext-{worker}-{turn}"
            posted = client.post("/v1/events", json={"stream": f"run/{run}", "events": [started_json(run)]})
            statuses += [posted.status_code, client.get(f"/v1/runs/{run}").status_code]
        return statuses

    with ThreadPoolExecutor(8) as pool:
        statuses = [status for found in pool.map(work, range(8)) for status in found]
    assert set(statuses) == {201, 200}
    assert house.store.head() == 41
    assert all(found.is_identical for found in compare(house.views()))


@pytest.mark.reads
def test_nothing_moves_the_champion_or_lets_anyone_in_over_http(client: TestClient, house: House) -> None:
    head = house.store.head()
    artifact = {"weights": "base", "memory": {"upto": 0, "folds": {}, "without": [], "digest": "0" * 64}}
    pointed = {"type": "ChampionPointed", "artifact": artifact, "by": "operator", "reason": "x", "evaluation": None}
    token = {"type": "TokenIssued", "token": "mine", "digest": "0" * 64, "role": "admin"}
    for event, way in ((pointed, "flywheel champion point"), (token, "flywheel token issue")):
        refused = client.post("/v1/events", json={"stream": "champion", "events": [event]})
        assert (refused.status_code, refused.json()["error"]["type"]) == (403, "ReservedEvent")
        assert way in refused.json()["error"]["message"]
    assert house.store.head() == head


@pytest.mark.reads
def test_what_the_loops_decide_by_is_refused_on_the_stream_of_prices(client: TestClient, house: House) -> None:
    head = house.store.head()
    for kind in sorted(EVENT_TYPES.keys() - EVENTS.keys()):
        event = sample(kind).model_dump(mode="json")
        refused = client.post("/v1/events", json={"stream": "prices", "events": [event]})
        assert (refused.status_code, refused.json()["error"]["type"]) == (403, "ReservedEvent"), kind
    assert house.store.head() == head


@pytest.mark.parametrize(
    ("role", "statuses"),
    [("read", (200, 403, 403, 403)), ("ingest", (200, 201, 201, 403)), ("operate", (200, 201, 201, 201))],
)
def test_a_token_may_do_what_its_role_allows(
    client: TestClient, house: House, role: TokenRole, statuses: tuple[int, ...]
) -> None:
    client.headers["Authorization"] = f"Bearer {issue(house.store, role, 'test', role)}"
    prices = {"stream": "prices", "events": [sample("PriceBookSet").model_dump(mode="json")]}
    answers = [
        client.get("/v1/runs"),
        client.post("/v1/events", json=body()),
        client.post("/v1/blobs", content=b"x"),
        client.post("/v1/events", json=prices),
    ]
    assert tuple(answer.status_code for answer in answers) == statuses
    for answer in answers:
        if answer.status_code == 403:
            least = "ingest" if role == "read" else "operate"
            error = answer.json()["error"]
            found = (error["type"], error["facts"]["actual"], error["facts"]["expected"])
            assert found == ("RoleTooLow", role, least)
            assert f"--role {least}" in error["message"]
            assert answer.headers["X-Log-Position"]


def test_no_token_takes_the_key_of_another_whatever_their_names_are(client: TestClient, house: House) -> None:
    """The holder of the first cannot know what the second will append, nor stand in its way."""
    for name, key in (("a", "b:c"), ("a:b", "c"), ("a%3Ab", "c")):
        client.headers["Authorization"] = f"Bearer {issue(house.store, name, 'test', 'operate')}"
        answer = client.post("/v1/events", json=body(key=key), headers={"Idempotency-Key": key})
        assert answer.json()["outcome"] == "committed", name


@pytest.mark.reads
@pytest.mark.parametrize(
    ("stream", "fields", "kind"),
    [
        ("run/eval-1__champion__t__seed1__r0", {"run": "eval-1__champion__t__seed1__r0"}, "ForeignRunName"),
        ("run/ext-2", {}, "ForeignStream"),
        (
            "run/ext-1",
            {"arm": {"evaluation": "e", "benchmark": "b", "arm": "champion", "repeat": 0, "is_sealed": True}},
            "",
        ),
    ],
)
def test_a_run_from_outside_keeps_to_its_own_name_and_stream(
    client: TestClient, house: House, stream: str, fields: dict[str, Any], kind: str
) -> None:
    head = house.store.head()
    answer = client.post("/v1/events", json={"stream": stream, "events": [{**started_json(), **fields}]})
    assert answer.status_code in {403, 422}
    assert answer.json()["error"]["type"] == (kind or "ReservedEvent")
    assert house.store.head() == head


def of_ours() -> list[dict[str, Any]]:
    """What a caller could send to be a sibling of one of our groups, each with one name that is ours."""
    started = started_json()
    begun = {"type": "InstanceReset", "run": "ext-1", "group": "g1", "seed": 7, "fingerprint": "1" * 64}
    return [
        {**started, "spec": {**started["spec"], "group_id": "g1"}},
        {**started, "spec": {**started["spec"], "sweep": "s1"}},
        begun,
        {"type": "RunMissing", "run": "ext-1", "group": "g1", "reason": "platform_error", "detail": "x"},
    ]


def test_no_run_from_outside_joins_a_group_of_ours_or_makes_its_runs_contaminated(
    client: TestClient, house: House
) -> None:
    record(house.store, house.blobs, SampleRun("r1"))
    head = house.store.head()
    for event in of_ours():
        refused = client.post("/v1/events", json={"stream": "run/ext-1", "events": [event]})
        assert (refused.status_code, refused.json()["error"]["type"]) == (403, "ForeignRunName")
    assert house.store.head() == head
    group = find_group(house.views(), "g1")
    assert group is not None
    assert ([sibling.run for sibling in group.siblings], group.contaminated_siblings) == (["r1"], frozenset())
