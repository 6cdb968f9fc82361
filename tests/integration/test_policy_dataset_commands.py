"""Datasets of a policy's runs over the command line and over REST, on a real log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest
from fastapi.testclient import TestClient

from api.cli.main import run_command
from api.datasets.row_batches import batches
from api.house import House
from api.routes.rows import NDJSON
from eventlog.events import GrpoQuery, RunsWithdrawn
from eventlog.store import Append
from projections.engine.paging import page_states
from projections.groups import GROUPS, find_groups, page_groups
from tests.conftest import Database
from tests.unit.test_policy_samples import MICRO, PolicyLog, play, siblings


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on a log with three groups of a policy's runs, one of them flat."""
    for number, scores in enumerate(((MICRO, 0, 0), (0, MICRO), (0, 0))):
        for run in siblings(*scores, group=f"g{number}"):
            play(empty_house.store, empty_house.blobs, replace(run, run=f"g{number}-{run.run}"))
    return empty_house


Flywheel = Callable[..., str]


@pytest.fixture
def fails(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run a command on the house's log: exit code, and all that it said."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out if code == 0 else printed.out + printed.err

    return run


@pytest.fixture
def flywheel(fails: Callable[..., tuple[int, str]]) -> Flywheel:
    """Run a command that ends well: its standard output."""

    def run(*arguments: str) -> str:
        code, said = fails(*arguments)
        assert code == 0, said
        return said

    return run


def test_a_log_in_postgres_gives_the_rows_of_the_same_log_in_memory(house: House) -> None:
    memory = PolicyLog()
    memory.store.append([Append(e.stream, (e.event,), "x") for e in house.store.read()])
    memory.blobs.keep(house.blobs.read_envelopes())
    query = GrpoQuery(reward="score")
    ours = [row for batch in batches(house.store, house.blobs, house.views(), query, 1) for row in batch.digests]
    theirs = [row for batch in batches(memory.store, memory.blobs, memory.views(), query) for row in batch.digests]
    assert ours == theirs
    assert len(ours) == 5


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_whole_groups_come_by_the_page_however_their_siblings_are_read(house: House, size: int) -> None:
    views = house.views()
    pages = list(page_groups(page_states(views, GROUPS, size), 2))
    assert [list(page) for page in pages] == [["g0", "g1"], ["g2"]]
    assert {key: state for page in pages for key, state in page.items()} == find_groups(views)
    house.store.append([Append("withdrawals", (RunsWithdrawn(runs=("g2-r0", "g2-r1"), reason="test"),), "test")])
    assert [list(page) for page in page_groups(page_states(house.views(), GROUPS, size), 2)] == [["g0", "g1"]]


def test_a_slice_is_registered_and_pulled_as_one_shard(
    house: House, client: TestClient, flywheel: Flywheel, tmp_path: Path
) -> None:
    shown = json.loads(flywheel("dataset", "slice", "--group", "g0", "--reward", "score", "--json"))
    assert (shown["group"], shown["kind"], shown["rows"]) == ("g0", "grpo", 3)
    (listed,) = client.get("/v1/slices").json()["slices"]
    assert client.get("/v1/slices/g0").json()["slice"] == listed
    answer = client.get("/v1/slices/g0/rows")
    assert answer.headers["ETag"].startswith(f'"{shown["dataset"]}.arrow.')
    frame = pl.read_ipc_stream(BytesIO(answer.content))
    assert frame["group"].to_list() == ["g0"] * 3
    lines = client.get("/v1/slices/g0/rows", headers={"Accept": NDJSON}).text.splitlines()
    assert [json.loads(line)["run"] for line in lines] == frame["run"].to_list()
    assert client.get("/v1/slices/g1").status_code == client.get("/v1/slices/nobody/rows").status_code == 404
    flywheel("dataset", "export", "g0", str(tmp_path / "shard.parquet"))
    assert pl.read_parquet(tmp_path / "shard.parquet")["advantage"].to_list() == frame["advantage"].to_list()
    assert json.loads(flywheel("dataset", "verify", "g0", "--json"))["outcome"] == "equal"


def test_a_dataset_is_built_listed_exported_verified_and_described(
    house: House, client: TestClient, flywheel: Flywheel, tmp_path: Path
) -> None:
    file = tmp_path / "rows.parquet"
    built = json.loads(flywheel("dataset", "build", "grpo", "--reward", "score", "--file", str(file), "--json"))
    assert (built["rows"], built["groups"], built["refused"]) == (5, 2, {"flat": 2})
    digest = built["dataset"]
    assert pl.read_parquet(file).height == 5
    flywheel("dataset", "export", digest[:8], str(tmp_path / "rows.ndjson"))
    assert len((tmp_path / "rows.ndjson").read_text().splitlines()) == 5
    assert {path.name for path in tmp_path.iterdir()} == {"rows.parquet", "rows.ndjson"}
    assert json.loads(flywheel("dataset", "verify", digest, "--json"))["rows"] == 5
    card = flywheel("dataset", "card", digest)
    assert client.get(f"/v1/datasets/{digest}/card").text == card
    assert "5 rows for grpo, of 5 runs in 2 groups." in card
    pairs = json.loads(flywheel("dataset", "build", "dpo", "--max-pairs", "1", "--json"))
    assert (pairs["rows"], pairs["kind"]) == (2, "dpo")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("build", "grpo", "--reward", "shaped", "--sweep", "nobody"), 1, "selects no rows"),
        (("build", "grpo", "--margin", "0.1"), 64, "no --margin"),
        (("build", "grpo", "--eps", "1e-4"), 64, "eps"),
        (("build", "sft", "--reward", "value"), 64, "go together"),
        (("slice", "--group", "nobody"), 1, "nobody"),
        (("slice", "--group", "g2"), 1, "flat"),
        (("show", "nobody"), 1, "nobody"),
    ],
)
def test_what_cannot_be_done_is_named_and_nothing_is_registered(
    house: House, fails: Callable[..., tuple[int, str]], arguments: tuple[str, ...], code: int, words: str
) -> None:
    found, said = fails("dataset", *arguments)
    assert (found, words in " ".join(said.split())) == (code, True), said
    assert not list(house.store.read(types=("DatasetFrozen", "SliceRegistered")))
