"""Frames of archived positions: straight from typed columns, on any engine, to the digest of the live table."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from sqlalchemy import Engine

from eventlog.archive.columns import DTYPES, columns_of_family, event_family
from eventlog.archive.drop import drop
from eventlog.archive.errors import ArchiveMissing, SegmentDamaged
from eventlog.archive.segments import segments
from eventlog.archive.write import archive
from eventlog.errors import NewerSchemaVersion
from eventlog.events import EVENT_TYPES, StepTaken
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from eventlog.upcast import UPCASTERS
from projections.errors import EngineUnusable, FrameDiffers
from projections.frames.engines import here, on_processes
from projections.frames.frame import ENVELOPE, Frame, digest_part, events_of, part_of
from projections.frames.framing import FrameParts, FrameViews, compare_frames, make_parts, parts_by_row, plan_reads
from projections.frames.outcomes import FRAMES, OUTCOMES
from projections.frames.partitions import archived_events, cut_partitions, parts_of
from tests.golden.test_golden_samples import golden_rows

END = len(golden_rows())
BORDER = 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def store(engine: Engine, folder: Path) -> PostgresStore:
    return PostgresStore(engine, archive=folder)


def digests(made: FrameParts) -> list[str]:
    return [digest_part(part) for part in made.parts]


def by_row(engine: Engine, after: int = 0, upto: int = END) -> list[str]:
    return [digest_part(part) for part in parts_by_row(engine, PostgresStore(engine), FRAMES, after, upto)]


@pytest.mark.parametrize("size", [1, 37, 150, 1000])
def test_a_frame_is_the_same_live_archived_and_dropped(
    size: int, engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    upto = Position(BORDER if size > 1 else 60)
    live = by_row(engine)
    assert digests(make_parts(engine, store, FRAMES, 0, END)) == live
    archive(owner_engine, folder, upto, size=size)
    made = make_parts(engine, store, FRAMES, 0, END)
    assert (digests(made), made.places) == (live, {"here": -(-upto // size)})
    drop(owner_engine, folder, upto)
    made = make_parts(engine, store, FRAMES, 0, END)
    assert (digests(made), made.places) == (live, {"here": -(-upto // size)})
    assert [digest_part(part) for part in parts_by_row(engine, store, FRAMES, 0, END)] == live


def test_any_span_of_archived_and_live_positions_makes_the_part_of_its_rows(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    archive(owner_engine, folder, Position(BORDER), size=90)
    draw = random.Random(7)  # noqa: S311 a test's choice
    cuts = [sorted(draw.sample(range(END + 1), 2)) for _ in range(12)]
    for after, upto in [*cuts, [0, 0], [0, BORDER], [BORDER, END], [BORDER - 1, BORDER + 1], [90, 180]]:
        assert digests(make_parts(engine, store, FRAMES, after, upto)) == by_row(engine, after, upto), (after, upto)


def test_reads_remember_across_the_border_of_the_archive(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    table = PostgresStore(engine)
    wholes = {upto: FrameViews(engine, table).read(OUTCOMES, Position(upto)) for upto in (100, 399, END)}
    archive(owner_engine, folder, Position(BORDER), size=150)
    drop(owner_engine, folder, Position(BORDER))
    views = FrameViews(engine, store)
    for upto in (100, END, 399):
        assert views.read(OUTCOMES, Position(upto)).equals(wholes[upto])
    assert [row.is_identical for row in compare_frames(engine, store, Position(END))] == [True, True]


def test_a_log_is_cut_at_its_segments_and_the_rest_is_rows(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    archive(owner_engine, folder, Position(BORDER), size=150)
    manifests = list(segments(engine))
    whole, spans = plan_reads(engine, store, FRAMES, 0, END)
    assert [(one.after, one.upto) for one in whole] == [(0, 150), (150, 300), (300, 400)]
    assert spans == ((400, END),)
    assert cut_partitions(folder, manifests, FRAMES, 200, 350)[0][0].events == 100
    assert cut_partitions(folder, manifests, FRAMES, 200, 350)[1] == ()
    assert cut_partitions(folder, [manifests[1]], FRAMES, 0, 500)[1] == ((0, 150), (300, 500))
    assert cut_partitions(folder, manifests, FRAMES, 7, 7) == ((), ())


def test_archived_files_that_are_gone_are_only_missed_once_the_table_dropped_them(
    engine: Engine, owner_engine: Engine, folder: Path, tmp_path: Path
) -> None:
    live = by_row(engine)
    archive(owner_engine, folder, Position(BORDER), size=150)
    nowhere = PostgresStore(engine, archive=tmp_path / "nowhere")
    assert digests(make_parts(engine, nowhere, FRAMES, 0, END)) == live
    drop(owner_engine, folder, Position(BORDER))
    for lost in (nowhere, PostgresStore(engine)):
        with pytest.raises(ArchiveMissing):
            make_parts(engine, lost, FRAMES, 0, END)


def test_a_damaged_file_is_named(engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path) -> None:
    archive(owner_engine, folder, Position(BORDER), size=150)
    file = folder / "default" / "151-300" / "runs.parquet"
    body = bytearray(file.read_bytes())
    body[4 : len(body) // 2] = bytes(len(body) // 2 - 4)
    file.write_bytes(bytes(body))
    for over in (here, on_processes(1)):
        with pytest.raises(SegmentDamaged, match="151-300"):
            make_parts(engine, store, FRAMES, 0, END, over=over)


# The typed columns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: str(frame.name))
def test_every_field_a_frame_reads_has_a_typed_column_of_its_kind(frame: Frame) -> None:
    for kind, fields in frame.reads.items():
        columns = {".".join(column.path): DTYPES[column.kind]() for column in columns_of_family(event_family(kind))}
        assert {path: columns[path] for path in fields} == dict(fields)


VERSIONS = replace(
    OUTCOMES,
    name="versions",
    reads={"RewardGraded": {"version": pl.String(), "passed": pl.Boolean()}},
    part={"position": pl.Int64(), "verifier": pl.String(), "version": pl.Int64(), "at": pl.Datetime("us", "UTC")},
    frame=lambda events: events["RewardGraded"].select("position", "version", "at", verifier=pl.col("payload.version")),
    merge=lambda parts: parts,
)


def test_a_field_with_a_name_of_the_envelope_is_told_from_it(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    (live,) = parts_by_row(engine, store, (VERSIONS,), 0, END)
    assert live["verifier"].unique().to_list() == ["oracle-1"]
    assert live["version"].min() > 1  # type: ignore[operator]
    archive(owner_engine, folder, Position(END - 1), size=1000)
    (partition,), _ = plan_reads(engine, store, (VERSIONS,), 0, END - 1)
    found = part_of(VERSIONS, archived_events(partition, VERSIONS.reads))
    assert digest_part(found) == digest_part(live)


@pytest.fixture
def older_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps as if they had been written before their indices were counted from 100."""
    monkeypatch.setattr(StepTaken, "schema_version", 2)
    monkeypatch.setitem(UPCASTERS, ("StepTaken", 1), lambda old: {**old, "index": old["index"] + 100})


@pytest.mark.usefixtures("older_steps")
def test_events_of_an_older_schema_version_are_upcast(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    live = by_row(engine)
    (_, steps) = parts_by_row(engine, store, FRAMES, 0, END)
    assert steps["index"].min() == 100
    archive(owner_engine, folder, Position(BORDER), size=150)
    assert digests(make_parts(engine, store, FRAMES, 0, END)) == live


def test_events_of_a_newer_schema_version_are_refused(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(owner_engine, folder, Position(BORDER), size=150)
    monkeypatch.setattr(StepTaken, "schema_version", 0)
    with pytest.raises(NewerSchemaVersion, match="StepTaken"):
        by_row(engine)
    with pytest.raises(NewerSchemaVersion, match="StepTaken"):
        make_parts(engine, store, FRAMES, 0, BORDER)
    assert EVENT_TYPES["StepTaken"].schema_version == 0


# Engines --------------------------------------------------------------------------------------------------------------


def test_processes_make_the_same_and_say_how_far_they_are(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    live = by_row(engine)
    archive(owner_engine, folder, Position(BORDER), size=100)
    told: list[int] = []
    made = make_parts(engine, store, FRAMES, 0, END, over=on_processes(2), progress=told.append)
    assert digests(made) == live
    assert sum(made.places.values()) == 4
    assert all(place.startswith("process ") for place in made.places)
    assert told == sorted(told)
    assert (len(told), told[-1]) == (5, END)
    assert make_parts(engine, store, FRAMES, BORDER, END, over=on_processes(2)).places == {}


def test_a_part_of_another_version_of_a_frame_is_refused(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    archive(owner_engine, folder, Position(BORDER), size=400)
    (partition,), _ = plan_reads(engine, store, [replace(OUTCOMES, version=2)], 0, BORDER)
    with pytest.raises(FrameDiffers, match="outcomes is of version 1"):
        parts_of(partition)
    (partition,), _ = plan_reads(engine, store, [VERSIONS], 0, BORDER)
    with pytest.raises(FrameDiffers, match="of version none"):
        parts_of(partition)


def _die(_: int) -> int:
    import os  # noqa: PLC0415

    os._exit(9)


def test_a_process_that_dies_is_no_answer() -> None:
    with pytest.raises(EngineUnusable, match="one of them died"):
        list(on_processes(1)(_die, [1, 2]))


def test_the_archive_gives_the_rows_as_columns_and_nothing_else(
    engine: Engine, owner_engine: Engine, store: PostgresStore, folder: Path
) -> None:
    archive(owner_engine, folder, Position(BORDER), size=400)
    (partition,), _ = plan_reads(engine, store, FRAMES, 0, BORDER)
    found = archived_events(partition, OUTCOMES.reads)
    schemas = {kind: events.collect_schema() for kind, events in found.items()}
    assert schemas == {kind: events.collect_schema() for kind, events in events_of(OUTCOMES.reads, ()).items()}
    assert ENVELOPE.keys() <= schemas["RunMissing"].keys()
    taken = [row for row in golden_rows()[:BORDER] if row.type == "StepTaken"]
    assert found["StepTaken"].collect()["run"].to_list() == [json.loads(row.payload)["run"] for row in taken]
