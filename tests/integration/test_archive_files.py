"""The files by themselves: polars, DuckDB and pyarrow read them, and a scan gives typed columns over all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from sqlalchemy import Engine

from eventlog.archive import scan as scanning
from eventlog.archive.columns import ENVELOPE, FAMILIES, columns_of_family, event_family
from eventlog.archive.errors import ArchiveMissing, SegmentDamaged
from eventlog.archive.read import segment_file_digest
from eventlog.archive.scan import scan
from eventlog.archive.write import archive
from eventlog.events import EVENT_TYPES
from eventlog.store import Position
from tests.golden.test_golden_samples import golden_rows

ROOT = Path(__file__).parents[2]
VERIFIER = ROOT / "docs" / "verify_archive.py"
END = len(golden_rows())
UPTO = Position(600)


@pytest.fixture
def folder(owner_engine: Engine, tmp_path: Path) -> Path:
    """The project's folder: the first 600 positions of the golden log, in three segments."""
    archive(owner_engine, tmp_path, UPTO, size=200)
    return tmp_path / "default"


def rewards() -> list[dict[str, Any]]:
    return [
        {"position": row.position, **json.loads(row.payload)}
        for row in golden_rows()
        if row.type == "RewardGraded" and row.position <= UPTO
    ]


def test_polars_duckdb_and_pyarrow_read_the_typed_columns(folder: Path) -> None:
    expected = [(found["position"], found["terms"]["score"], found["passed"]) for found in rewards()]
    assert len(expected) > 30
    columns = ["position", "terms.score", "passed"]
    polars = pl.scan_parquet(folder / "*" / "rewards.parquet").select(columns).sort("position").collect().rows()
    arrow = [
        tuple(row[name] for name in columns)
        for place in sorted(folder.iterdir(), key=lambda place: int(place.name.partition("-")[0]))
        for row in pq.read_table(place / "rewards.parquet", columns=columns).to_pylist()
    ]
    with duckdb.connect() as connection:
        duck = connection.execute(
            'SELECT position, "terms.score", passed FROM read_parquet($files) ORDER BY position',
            {"files": str(folder / "*" / "rewards.parquet")},
        ).fetchall()
    assert polars == arrow == duck == expected


def test_duckdb_reads_envelopes_times_and_payloads(folder: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(
            """SELECT position, stream, epoch_us("at"), json_extract_string(payload, '$.run'), hex(digest), hex(chain)
            FROM read_parquet($files) ORDER BY position""",
            {"files": str(folder / "*" / "runs.parquet")},
        ).fetchall()
    rows = [row for row in golden_rows() if row.position <= UPTO and event_family(row.type) == "runs"]
    assert found == [
        (
            row.position,
            row.stream,
            round(row.at.timestamp() * 1_000_000),
            json.loads(row.payload).get("run"),
            row.digest.hex().upper(),
            row.chain.hex().upper(),
        )
        for row in rows
    ]


def test_files_are_compressed_sorted_and_carry_statistics(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        file = pq.ParquetFile(path)
        positions = file.read(columns=["position"])["position"].to_pylist()
        assert positions == sorted(positions)
        assert file.schema_arrow.names[: len(ENVELOPE)] == list(ENVELOPE)
        assert str(file.schema_arrow.field("at").type) == "timestamp[us, tz=UTC]"
        for group in range(file.num_row_groups):
            column = file.metadata.row_group(group).column(0)
            assert column.compression == "ZSTD"
            assert column.statistics.has_min_max


def test_a_scan_gives_a_familys_columns_over_all_segments(folder: Path) -> None:
    found = scan(folder, "rewards").select("position", "terms.score", "passed").collect().rows()
    assert found == [(row["position"], row["terms"]["score"], row["passed"]) for row in rewards()]
    some = scan(folder, "rewards", after=Position(150), upto=Position(450)).collect()
    assert some["position"].to_list() == [row["position"] for row in rewards() if 150 < row["position"] <= 450]
    every = [scan(folder, family).select(pl.len()).collect().item() for family in FAMILIES]
    assert sum(every) == UPTO


def test_a_scan_of_nothing_has_the_columns_of_the_family(tmp_path: Path) -> None:
    for family in FAMILIES:
        found = scan(tmp_path / "none", family).collect()
        assert found.columns == [*ENVELOPE, *(column.name for column in columns_of_family(family))]
        assert len(found) == 0


def test_a_scan_types_again_what_another_vocabulary_wrote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = scan(folder, "rewards").collect()
    for place in folder.iterdir():
        path = place / "rewards.parquet"
        pl.read_parquet(path).drop("terms.score", "passed").with_columns(cost=pl.lit("dear")).write_parquet(path)
        said = json.loads((place / "segment.json").read_text())
        (file,) = [file for file in said["files"] if file["family"] == "rewards"]
        file["bytes"] = path.stat().st_size
        file["sha256"] = segment_file_digest(path)
        file["columns"] = {**file["columns"], "cost": "text"}
        (place / "segment.json").write_text(json.dumps(said))
    assert scan(folder, "rewards").collect().equals(expected)
    assert scan(folder, "rewards", upto=Position(300)).filter("passed").select("cost").collect().height > 0


def test_a_scan_upcasts_what_an_older_schema_wrote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = EVENT_TYPES["RewardGraded"]
    monkeypatch.setattr(model, "schema_version", model.schema_version + 1)
    monkeypatch.setattr(
        scanning, "upcast", lambda _kind, _old, _new, payload: {**payload, "score": payload["score"] // 2}
    )
    found = scan(folder, "rewards").select("score").collect()["score"].to_list()
    assert found == [row["score"] // 2 for row in rewards()]


def test_a_scan_of_a_folder_that_lost_a_file_says_so(folder: Path) -> None:
    (folder / "201-400" / "rewards.parquet").unlink()
    with pytest.raises(ArchiveMissing, match="201 to 400"):
        scan(folder, "rewards")
    (folder / "1-200" / "segment.json").unlink()
    with pytest.raises(SegmentDamaged):
        scan(folder, "rewards")
