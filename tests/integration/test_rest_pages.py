"""Lists come in pages of a bounded size; runs are filtered; slices are registered; digests may be short; `/docs`."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.datasets.freeze import build_dataset, freeze_dataset
from api.house import House
from api.queries.champion import champion_history
from api.queries.loops import list_tools
from api.queries.pieces import find_pieces
from api.routes.schemas import answer_schemas
from api.tokens import issue
from eventlog.events import ChampionPointed, SftQuery
from eventlog.store import Append
from tests.golden.test_golden_samples import sample

from .test_reads_stay_small import rows_touched
from .test_rest_samples import BASE, NO_DIGEST, SampleRun, append, frozen, planned, record, template
from .test_rest_time import READS, filled, needed, paths

NO_LISTS = frozenset({"/v1/champion", "/v1/costs", "/v1/diff", "/v1/log", "/v1/taint"})
"""Reads without a name in their path that answer with one thing."""


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


def pages(client: TestClient, path: str, name: str, limit: int, **asked: Any) -> list[Any]:
    """Every item of a list, read by pages."""
    found: list[Any] = []
    following: Any = None
    while True:
        params = {**asked, "limit": limit, **({} if following is None else {"after": following})}
        page = client.get(path, params=params).json()
        assert len(page[name]) <= limit
        found += page[name]
        following = page["next"]
        if following is None:
            return found


@pytest.mark.parametrize("path", [path for path in READS if "{" not in path and path not in NO_LISTS])
def test_every_list_takes_a_limit_and_where_to_begin(path: str) -> None:
    taken = {parameter["name"]: parameter for parameter in paths()[path]["get"]["parameters"]}
    assert {"limit", "after"} <= taken.keys()
    assert taken["limit"]["schema"]["maximum"] == 1000
    assert needed(path) == {}
    assert filled(path) == path


def fill(house: House) -> None:
    """A log with three of everything that is listed."""
    for number in range(3):
        append(house.store, f"rewrite/rw-{number}", sample("RewriteProposed", rewrite=f"rw-{number}"))
        append(house.store, f"hint/hint-{number}", sample("HintRecorded", hint=f"hint-{number}"))
        append(
            house.store, f"benchmark/b{number}", frozen(template(), 7).model_copy(update={"benchmark": f"b{number}"})
        )
        pointed = ChampionPointed(artifact=BASE, by="operator", reason=f"{number}", evaluation=None)
        append(house.store, "champion", pointed)
        append(house.store, "withdrawals", sample("RunsWithdrawn", runs=[f"r{number}"], reason=f"{number}"))
        append(house.store, "erasures", sample("SubjectErased", subject=f"s{number}"))
        append(house.store, f"checkpoint/{number}", sample("CheckpointSaved", checkpoint=f"{number}" * 64))
        append(house.store, f"slice/g{number}", sample("SliceRegistered", group=f"g{number}"))
        append(house.store, f"dataset/{number}", sample("DatasetFrozen", dataset=f"{number}" * 64))
        append(house.store, f"base/{number}", sample("BaseAdded", base=f"{number}" * 64))
        append(house.store, f"sweep/s{number}", planned(template()).model_copy(update={"sweep": f"s{number}"}))
        append(
            house.store,
            f"loop/loop-{number}",
            sample("LoopOpened", loop=f"loop-{number}"),
            sample("SkillSaved", loop=f"loop-{number}", skill=f"skill_{number}"),
            sample("ToolForged", loop=f"loop-{number}", tool=f"dynamic.tool_{number}"),
        )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("rewrites", "rewrites"),
        ("hints", "hints"),
        ("benchmarks", "benchmarks"),
        ("champion/history", "history"),
        ("taint/withdrawals", "withdrawals"),
        ("taint/erasures", "erasures"),
        ("checkpoints", "checkpoints"),
        ("slices", "slices"),
        ("datasets", "datasets"),
        ("bases", "bases"),
        ("sweeps", "sweeps"),
        ("loops", "loops"),
        ("skills", "skills"),
        ("tools", "tools"),
    ],
)
def test_pages_of_any_size_hold_what_one_page_holds(client: TestClient, house: House, path: str, name: str) -> None:
    fill(house)
    whole = client.get(f"/v1/{path}").json()
    assert (len(whole[name]), whole["next"]) == (3, None)
    for limit in (1, 2, 3):
        assert pages(client, f"/v1/{path}", name, limit) == whole[name]


def test_pages_of_suites_hold_those_in_the_log_and_the_bundled_ones(client: TestClient, house: House) -> None:
    for name in ("a-shop", "marketplace", "z-shop"):
        content = {**sample("SuiteRegistered").model_dump(mode="json")["content"], "name": name}
        append(house.store, f"suite/{name}", sample("SuiteRegistered", suite=name, content=content))
    whole = client.get("/v1/suites").json()
    versions = [(row["suite"], row["version"]) for row in whole["suites"]]
    assert versions == [("a-shop", 1), ("helpdesk", 0), ("marketplace", 1), ("miniwob", 0), ("z-shop", 1)]
    for limit in (1, 2, 3, 5):
        assert pages(client, "/v1/suites", "suites", limit) == whole["suites"]


def test_a_page_costs_the_same_in_a_log_ten_times_longer(empty_house: House) -> None:
    house, costs = empty_house, []
    for many in (30, 300):
        head = house.store.head()
        proposed = tuple(sample("RewriteProposed", rewrite=f"rw-{head}-{number:04}") for number in range(many))
        pointed = tuple(
            ChampionPointed(artifact=BASE, by="operator", reason=f"{number}", evaluation=None) for number in range(many)
        )
        house.store.append([Append("rewrite/all", proposed, "test"), Append("champion", pointed, "test")])
        forged = tuple(
            sample("ToolForged", loop="by-hand", tool=f"dynamic.t{head}_{number:04}") for number in range(many)
        )
        house.store.append([Append("loop/by-hand", forged, "test")])
        views = house.views()
        costs.append(
            (
                rows_touched(house.engine, partial(find_pieces, views, "rewrite", limit=10)),
                rows_touched(house.engine, partial(champion_history, views, limit=10)),
                rows_touched(house.engine, partial(list_tools, views, limit=10)),
            )
        )
    assert all(late <= 2 * early for early, late in zip(*costs, strict=True)), costs


# Runs -----------------------------------------------------------------------------------------------------------------


def ids(client: TestClient, **asked: str) -> list[str]:
    answer = client.get("/v1/runs", params=asked)
    assert answer.status_code == 200, answer.text
    return [run["run"] for run in answer.json()["runs"]]


def test_runs_are_filtered_by_environment_result_and_text(client: TestClient, house: House) -> None:
    record(
        house.store,
        house.blobs,
        SampleRun("a", environment="shop"),
        SampleRun("b", score=0, template="Phone"),
        SampleRun("c", score=None),
    )
    assert ids(client, environment="shop") == ["a"]
    assert ids(client, passed="true") == ["a"]
    assert ids(client, passed="false") == ["b"]
    assert ids(client, text="pHoNe") == ["b"]
    assert ids(client, text="nothing like it") == []


def test_runs_of_a_span_come_in_order_of_their_beginning(client: TestClient, house: House) -> None:
    names = ["z", "y", "x", "w"]
    began = []
    for name in names:
        began.append(int(house.store.head()) + 1)
        record(house.store, house.blobs, SampleRun(name, score=0 if name == "y" else 1_000_000))
    assert ids(client, since="0") == names
    assert ids(client, since=str(began[1] - 1), until=str(began[2])) == ["y", "x"]
    assert ids(client, since=str(began[0])) == names[1:]
    assert ids(client, since="0", passed="true") == ["z", "x", "w"]
    assert [run["run"] for run in pages(client, "/v1/runs", "runs", 1, since="0")] == names
    assert [run["run"] for run in pages(client, "/v1/runs", "runs", 1, until=str(began[2]), passed="true")] == [
        "z",
        "x",
    ]
    last = max(each.at for each in house.store.read())
    assert ids(client, since=(last + timedelta(seconds=1)).isoformat()) == []
    wrong = client.get("/v1/runs", params={"since": "0", "after": "a run"})
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (422, "Unprocessable")


# Slices and digests ---------------------------------------------------------------------------------------------------


def test_a_slice_is_registered_once_for_the_same_rows(client: TestClient, house: House) -> None:
    append(house.store, "sweep/s1", planned(template()))
    record(house.store, house.blobs, SampleRun("r1"), SampleRun("r2", score=0))
    body = {"query": {"kind": "sft", "group": "g1"}}
    first, again = client.post("/v1/slices", json=body), client.post("/v1/slices", json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == client.get("/v1/slices/g1").json()
    assert first.headers["X-Log-Position"] == str(house.store.head())
    assert client.get("/v1/slices/g1/rows").status_code == 200
    assert [each.actor for each in house.store.read(types=["SliceRegistered"])] == ["slices:tester"]


@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [
        ({"kind": "sft"}, 422, "Unprocessable"),
        ({"kind": "sft", "group": "nobody"}, 404, "Unknown"),
        ({"kind": "sft", "group": "g1", "min_score": 1_000_000}, 422, "EmptyDataset"),
        ({"kind": "other", "group": "g1"}, 422, "InvalidRequest"),
        ({"kind": "sft", "group": "g1", "more": 1}, 422, "InvalidRequest"),
        ({"kind": "sft", "group": "g\0"}, 422, "UnstorableText"),
        ({"kind": "sft", "group": "g1", "sweep": ["s1", "s2"]}, 422, "EmptyDataset"),
    ],
)
def test_a_slice_that_cannot_be_is_refused(
    client: TestClient, house: House, query: dict[str, Any], status: int, kind: str
) -> None:
    append(house.store, "sweep/s1", planned(template()))
    record(house.store, house.blobs, SampleRun("r1", score=0))
    answer = client.post("/v1/slices", json={"query": query})
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert client.get("/v1/slices").json()["slices"] == []


def test_who_may_only_record_runs_registers_no_slice(client: TestClient, house: House) -> None:
    token = issue(house.store, "agent", "test", "ingest")
    answer = client.post("/v1/slices", json={}, headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "RoleTooLow")


def test_a_short_digest_names_a_dataset(client: TestClient, house: House) -> None:
    append(house.store, "sweep/s1", planned(template()))
    record(house.store, house.blobs, SampleRun("r1"))
    digest = freeze_dataset(house.store, build_dataset(house.store, house.blobs, house.views(), SftQuery()), "test")
    assert client.get(f"/v1/datasets/{digest[:8]}").json() == client.get(f"/v1/datasets/{digest}").json()
    assert client.get(f"/v1/datasets/{digest[:9]}/rows").headers["ETag"].startswith(f'"{digest}.')
    assert client.get(f"/v1/datasets/{digest[:9]}/card").status_code == 200
    assert client.get(f"/v1/datasets/{digest[:7]}").status_code == 422
    saved = [sample("CheckpointSaved", checkpoint=f"abcdef01{end * 56}") for end in "12"]
    for each in saved:
        append(house.store, f"checkpoint/{each.model_dump()['checkpoint']}", each)
    assert client.get("/v1/checkpoints/abcdef011").json()["checkpoint"]["checkpoint"] == f"abcdef01{'1' * 56}"
    unclear = client.get("/v1/checkpoints/abcdef01")
    assert (unclear.status_code, "more of its characters" in unclear.text) == (404, True)


# The page on REST -----------------------------------------------------------------------------------------------------


@pytest.mark.reads
def test_the_page_on_rest_needs_no_network_and_no_token(client: TestClient) -> None:
    page = client.get("/docs", headers={"Authorization": ""})
    assert page.status_code == 200
    needed_files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(needed_files) == 3
    for name in needed_files:
        answer = client.get(f"/{name}", headers={"Authorization": ""})
        assert answer.status_code == 200, name
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert client.get("/docs/other.js").status_code == client.get("/docs/..%2Fpage.html").status_code == 404


# What happened to one thing -------------------------------------------------------------------------------------------


def test_the_events_of_a_run_come_in_pages(client: TestClient, house: House) -> None:
    steps = tuple(sample("StepTaken", run="r", index=number) for number in range(120))
    house.store.append([Append("run/r", (SampleRun("r").started(NO_DIGEST), *steps), "test")])
    first = client.get("/v1/runs/r").json()
    assert (len(first["events"]), first["next"]) == (100, first["events"][-1]["position"])
    for limit in (50, 121):
        found = pages(client, "/v1/runs/r", "events", limit)
        assert [each["type"] for each in found] == ["RunStarted"] + ["StepTaken"] * 120


def test_the_history_of_anything_comes_in_pages(client: TestClient, house: House) -> None:
    fill(house)
    lost = tuple(sample("RewriteLost", rewrite="rw-0", run=f"r{number}", control_runs=[]) for number in range(4))
    tried = tuple(sample("PieceTried", kind="hint", piece="hint-0", run=f"r{number}") for number in range(4))
    opened = sample("CourseOpened", environment="shop")
    chosen = sample("SubstrateChosen")
    requests = [Append("rewrite/rw-0", lost, "test"), Append("hint/hint-0", tried, "test")]
    requests += [Append("course/shop", (each,), "test") for each in (opened, opened, opened)]
    requests += [Append("substrates", (chosen,) * 3, "test")]
    house.store.append(requests)
    (cluster,) = client.get("/v1/substrates").json()["clusters"]
    for path in (
        *("rewrites/rw-0", "hints/hint-0", f"substrates/{cluster['environment']}/{cluster['cluster']}"),
        f"courses/shop?loop={getattr(opened, 'loop', 'fast')}",
    ):
        address = f"/v1/{path}"
        whole = client.get(address).json()
        assert (len(whole["history"]) >= 2, whole["next"]) == (True, None), path
        for limit in (1, 2, len(whole["history"])):
            asked = {"loop": "fast"} if "courses" in path else {}
            found = pages(client, address.partition("?")[0], "history", limit, **asked)
            assert found == whole["history"], path


def test_every_answer_with_a_history_or_events_takes_a_limit() -> None:
    taking = [
        (path, parameters)
        for path, methods in paths().items()
        if "get" in methods
        and (parameters := {each["name"]: each for each in methods["get"].get("parameters", [])})
        and {"history", "events"} & _fields_of(methods["get"])
    ]
    assert len(taking) >= 8
    for path, parameters in taking:
        assert {"limit", "after"} <= parameters.keys(), path
        assert parameters["limit"]["schema"]["maximum"] == 1000


def _fields_of(described: dict[str, Any]) -> set[str]:
    """The fields of what a read answers."""
    content = described["responses"].get("200", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    return set(answer_schemas().get(name, {}).get("properties", {}))
