from __future__ import annotations

import json
from io import BytesIO

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from fastapi.testclient import TestClient

from api.datasets.freeze import build_dataset, freeze_dataset
from api.house import House
from api.routes.negotiation import preferred_type
from api.routes.rows import ARROW, NDJSON, PARQUET
from eventlog.blobs import PostgresBlobs
from eventlog.events import DatasetFrozen, SftQuery
from projections.datasets.plan_rows import SCHEMA

from .test_rest_samples import SampleRun, append, planned, record, template


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


@pytest.fixture
def digest(house: House) -> str:
    append(house.store, "sweep/s1", planned(template()))
    record(house.store, house.blobs, SampleRun("r1"), SampleRun("r2", group="g2", value=None), SampleRun("r3", score=0))
    return freeze_dataset(house.store, build_dataset(house.store, house.blobs, house.views(), SftQuery()), "test")


def test_a_dataset_is_listed_and_shown(client: TestClient, digest: str) -> None:
    (listed,) = client.get("/v1/datasets").json()["datasets"]
    shown = client.get(f"/v1/datasets/{digest}").json()["dataset"]
    assert listed == shown
    assert (shown["rows"], shown["groups"], shown["refused"]) == (6, 2, {"below_score": 1})
    assert client.get("/v1/datasets", params={"as_of": shown["upto"]}).json() == {"datasets": [], "next": None}


@pytest.mark.parametrize("accept", [None, "*/*", "application/*", ARROW, f"{NDJSON};q=0.5, {ARROW}"])
def test_rows_come_as_arrow_for_polars_and_pyarrow(client: TestClient, digest: str, accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = client.get(f"/v1/datasets/{digest}/rows", headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, ARROW)
    assert answer.headers["ETag"].startswith(f'"{digest}.arrow.')
    assert (answer.headers["Vary"], answer.headers["Accept-Ranges"]) == ("Accept", "bytes")
    frame = pl.read_ipc_stream(BytesIO(answer.content))
    assert frame.schema == pl.Schema(SCHEMA)
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.num_rows == frame.height == 6
    assert table.schema.field("run").type == pa.large_string()


def test_rows_come_as_ndjson(client: TestClient, digest: str) -> None:
    answer = client.get(f"/v1/datasets/{digest}/rows", headers={"Accept": NDJSON})
    assert answer.headers["Content-Type"].split(";")[0] == NDJSON
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert len(rows) == 6
    assert rows[0]["completion"] == [{"role": "assistant", "content": '{"type":"navigate","url":"/boats"}'}]
    assert [row["reward"] for row in rows] == [990_000] * 3 + [None] * 3


def test_an_empty_dataset_has_columns_and_no_rows(client: TestClient, house: House) -> None:
    empty = freeze_dataset(house.store, build_dataset(house.store, house.blobs, house.views(), SftQuery()), "test")
    frame = pl.read_ipc_stream(BytesIO(client.get(f"/v1/datasets/{empty}/rows").content))
    assert (frame.height, frame.schema) == (0, pl.Schema(SCHEMA))
    assert client.get(f"/v1/datasets/{empty}/rows", headers={"Accept": NDJSON}).content == b""


def test_other_kinds_are_406_and_the_offer_is_listed(client: TestClient, digest: str) -> None:
    answer = client.get(f"/v1/datasets/{digest}/rows", headers={"Accept": "application/json"})
    assert answer.status_code == 406
    assert ARROW in answer.json()["error"]["message"]
    assert NDJSON in answer.json()["error"]["message"]


def test_known_rows_are_not_sent_again(client: TestClient, digest: str) -> None:
    sent = client.get(f"/v1/datasets/{digest}/rows").headers["ETag"]
    for tag in (sent, f'"{digest}"', f'"x", W/"{digest}"', "*"):
        answer = client.get(f"/v1/datasets/{digest}/rows", headers={"If-None-Match": tag})
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", sent)
    other = {"If-None-Match": sent, "Accept": PARQUET}
    assert client.get(f"/v1/datasets/{digest}/rows", headers=other).status_code == 200
    assert client.get(f"/v1/datasets/{digest}/rows", headers={"If-None-Match": '"x"'}).status_code == 200


def test_rows_stay_the_same_while_the_log_goes_on(client: TestClient, house: House, digest: str) -> None:
    before = client.get(f"/v1/datasets/{digest}/rows").content
    record(house.store, house.blobs, SampleRun("r9", group="g9"))
    after = client.get(f"/v1/datasets/{digest}/rows")
    assert after.content == before
    assert after.headers["X-Log-Position"] == str(house.store.head())


def test_rows_that_differ_from_their_digest_are_not_served(client: TestClient, house: House, digest: str) -> None:
    forged = "a" * 64
    event = DatasetFrozen(dataset=forged, query=SftQuery(), upto=house.store.head(), rows=1, groups=1, refused=())
    append(house.store, f"dataset/{forged}", event)
    answer = client.get(f"/v1/datasets/{forged}/rows")
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "DatasetDiffers")
    assert answer.json()["error"]["facts"]["actual"] == digest


def test_lost_blobs_are_said_to_be_missing(client: TestClient, digest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PostgresBlobs.get
    monkeypatch.setattr(PostgresBlobs, "get", lambda self, _digest: whole(self, "b" * 64))
    answer = client.get(f"/v1/datasets/{digest}/rows")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "BlobMissing")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "a/x"),
        ("*/*", "a/x"),
        ("a/y", "a/y"),
        ("a/*;q=0.5, a/y", "a/y"),
        ("a/x;q=0, */*", "a/y"),
        ("a/x;q=0", None),
        ("b/*", None),
        ("a/x;q=nan, a/y;q=0.1", "a/y"),
        ("a/x;q=9", None),
        ("A/Y ; Q=1.000", "a/y"),
        (",;,", None),
    ],
)
def test_the_most_specific_range_decides(accept: str, expected: str | None) -> None:
    assert preferred_type(accept, ("a/x", "a/y")) == expected


def test_datasets_are_listed_by_fields_of_their_query(client: TestClient, house: House, digest: str) -> None:
    other = SftQuery(environment="nowhere")
    for query, expected in (
        ('{"kind": "sft"}', [digest]),
        (json.dumps(SftQuery().model_dump(mode="json")), [digest]),
        ('{"kind": "grpo"}', []),
        (json.dumps({"environment": other.environment}), []),
        ('{"no_such_field": 1}', []),
    ):
        listed = client.get("/v1/datasets", params={"query": query}).json()
        assert ([each["dataset"] for each in listed["datasets"]], listed["next"]) == (expected, None)
    for query in ("grpo", "[1]", "[" * 3_000):
        answer = client.get("/v1/datasets", params={"query": query})
        assert (answer.status_code, answer.json()["error"]["type"]) == (422, "Unprocessable")
