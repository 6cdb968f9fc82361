"""What an archive refuses: damage in files, manifests and rows, hands on its tables, strangers, an unready place."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from eventlog.archive.drop import drop
from eventlog.archive.errors import (
    ArchiveBusy,
    ArchiveMissing,
    ArchiveUnwritable,
    DropRefused,
    NotTheOwner,
    SegmentDamaged,
    SegmentForeign,
)
from eventlog.archive.manifest import SegmentManifest
from eventlog.archive.read import rows, segment_file_digest
from eventlog.archive.segments import live_from, segments
from eventlog.archive.write import archive
from eventlog.chain import GENESIS, verify_chain
from eventlog.database import open_engine
from eventlog.errors import BrokenChain
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Position
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_rows, sample

END = len(golden_rows())
UPTO = Position(300)
WON = sample("RewriteWon")


@pytest.fixture
def folder(owner_engine: Engine, tmp_path: Path) -> Path:
    """Where the first 300 positions of the golden log are kept, in segments of 100; the table has them too."""
    archive(owner_engine, tmp_path, UPTO, size=100)
    return tmp_path


def segment(folder: Path, name: str = "101-200") -> Path:
    return folder / "default" / name


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def without_a_row(path: Path) -> None:
    frame = pl.read_parquet(path)
    frame.head(len(frame) - 1).write_parquet(path)


def with_another_payload(path: Path) -> None:
    frame = pl.read_parquet(path)
    frame.with_columns(pl.col("payload").str.replace("r", "q", literal=True)).write_parquet(path)


def edited(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit of a file": lambda place: flipped(place / "runs.parquet"),
    "a file cut short": lambda place: (place / "runs.parquet").write_bytes((place / "runs.parquet").read_bytes()[:-9]),
    "no file": lambda place: (place / "runs.parquet").unlink(),
    "a row less": lambda place: without_a_row(place / "runs.parquet"),
    "another payload": lambda place: with_another_payload(place / "runs.parquet"),
    "another count": lambda place: edited(place / "segment.json", events=99),
    "another root": lambda place: edited(place / "segment.json", root="00" * 32),
    "another chain": lambda place: edited(place / "segment.json", chain="00" * 32),
    "a field too many": lambda place: edited(place / "segment.json", note="hello"),
    "a newer format": lambda place: edited(place / "segment.json", format_version=2),
    "a manifest that is no JSON": lambda place: (place / "segment.json").write_text("{"),
    "a manifest in another encoding": lambda place: (place / "segment.json").write_bytes(b"\xff\xfe{}"),
    "no manifest": lambda place: (place / "segment.json").unlink(),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_segment_is_named_and_nothing_is_dropped(
    engine: Engine, owner_engine: Engine, folder: Path, what: str
) -> None:
    DAMAGE[what](segment(folder))
    with pytest.raises(SegmentDamaged, match="101-200"):
        drop(owner_engine, folder, UPTO)
    assert live_from(engine) == 1
    assert len(list(PostgresStore(engine).read_stored())) == END


def test_a_missing_segment_is_named_and_nothing_is_dropped(engine: Engine, owner_engine: Engine, folder: Path) -> None:
    shutil.rmtree(segment(folder))
    with pytest.raises(ArchiveMissing, match="101 to 200"):
        drop(owner_engine, folder, UPTO)
    assert live_from(engine) == 1
    assert drop(owner_engine, folder, Position(199)) == 100


@pytest.mark.parametrize("what", ["a bit of a file", "a file cut short", "no file", "a row less"])
def test_a_read_of_a_segment_that_was_damaged_later_is_refused(
    engine: Engine, owner_engine: Engine, folder: Path, what: str
) -> None:
    drop(owner_engine, folder, UPTO)
    DAMAGE[what](segment(folder))
    store = PostgresStore(engine, archive=folder)
    with pytest.raises((SegmentDamaged, ArchiveMissing), match="101"):
        list(store.read_stored())
    assert len(list(store.read_stored(upto=Position(100)))) == 100


def told_anew(folder: Path, manifest: SegmentManifest) -> SegmentManifest:
    """The manifest that calls the files of 101-200 right as they are now."""
    paths = {file.name: segment(folder) / file.name for file in manifest.files}
    said = {name: {"bytes": path.stat().st_size, "sha256": segment_file_digest(path)} for name, path in paths.items()}
    return manifest.model_copy(
        update={"files": tuple(file.model_copy(update=said[file.name]) for file in manifest.files)}
    )


def test_one_wrong_bit_is_found_by_a_read_of_some_types_and_once_it_is_there_after_a_good_read(
    engine: Engine, owner_engine: Engine, folder: Path
) -> None:
    drop(owner_engine, folder, UPTO)
    store = PostgresStore(engine, archive=folder)
    expected = [row.position for row in golden_rows() if row.type == "RunStarted"]
    assert [row.position for row in store.read_stored(types=["RunStarted"])] == expected
    flipped(segment(folder) / "runs.parquet")
    with pytest.raises(SegmentDamaged, match=r"101-200 is damaged: the SHA-256 of runs\.parquet"):
        list(store.read_stored(types=["RunStarted"]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: pl.concat([frame.slice(1), frame.slice(1, 1)]).sort("position"), "one of them twice"),
        (lambda frame: frame.slice(1), "the number of its events of"),
    ],
)
def test_positions_that_come_twice_or_not_at_all_are_found_by_a_read_of_some_types(
    engine: Engine, folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame], said: str
) -> None:
    manifest = next(segments(engine, Position(100)))
    path = segment(folder) / "runs.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    types = [kind for file in manifest.files if file.name == path.name for kind in file.types]
    with pytest.raises(SegmentDamaged, match=said):
        list(rows(folder / "default", told_anew(folder, manifest), types=types))


def test_a_payload_that_was_changed_in_a_file_of_the_right_length_breaks_the_chain(
    engine: Engine, owner_engine: Engine, folder: Path
) -> None:
    manifest = next(segments(engine, Position(100)))
    with_another_payload(segment(folder) / "rewards.parquet")
    found = rows(folder / "default", told_anew(folder, manifest))
    with pytest.raises(BrokenChain, match="content digest"):
        list(verify_chain(found, after=Position(100), previous=bytes.fromhex(manifest.previous)))


ROWS = {
    "the number of rows": ("DELETE FROM events WHERE position = 150", "99 events from 101 to 200"),
    "the chain at a segment's end": (
        "UPDATE events SET chain = sha256('other') WHERE position = 200",
        "chain in the table at 200",
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_rows_that_differ_from_the_segment_are_not_dropped(
    engine: Engine, owner_engine: Engine, folder: Path, what: str
) -> None:
    damage, named = ROWS[what]
    with owner_engine.begin() as connection:
        connection.execute(text("ALTER TABLE events DISABLE TRIGGER ALL"))
        connection.execute(text(damage))
        connection.execute(text("ALTER TABLE events ENABLE TRIGGER ALL"))
    with pytest.raises(DropRefused, match=named):
        drop(owner_engine, folder, UPTO)
    assert live_from(engine) == 1


def test_a_log_that_is_damaged_is_not_archived(owner_engine: Engine, tmp_path: Path) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("ALTER TABLE events DISABLE TRIGGER ALL"))
        connection.execute(text("UPDATE events SET actor = 'another' WHERE position = 150"))
    with pytest.raises(BrokenChain) as caught:
        archive(owner_engine, tmp_path, UPTO, size=100)
    assert caught.value.facts["position"] == 150
    assert [manifest.folder for manifest in segments(owner_engine)] == ["1-100"]
    assert [entry.name for entry in (tmp_path / "default").iterdir()] == ["1-100"]


CALLS = {
    "the newest event": (END, "stays in the table"),
    "more than there is": (END + 10, "stays in the table"),
    "what no segment ends with": (250, "the segments end at position 300, not at 250"),
    "what is not archived": (400, "the segments end at position 300, not at 400"),
}


@pytest.mark.parametrize("what", CALLS)
def test_the_database_itself_drops_only_whole_segments(owner_engine: Engine, folder: Path, what: str) -> None:
    upto, said = CALLS[what]
    with pytest.raises(DBAPIError, match=said), owner_engine.begin() as connection:
        connection.execute(text("SELECT drop_archived(:upto)"), {"upto": upto})
    assert live_from(owner_engine) == 1
    assert (folder / "default").is_dir()


def test_the_newest_event_stays_even_where_it_is_archived(owner_engine: Engine, folder: Path) -> None:
    archive(owner_engine, folder, Position(END), size=1000)
    with pytest.raises(DropRefused, match="newest event"):
        drop(owner_engine, folder, Position(END))
    assert drop(owner_engine, folder, Position(END - 1)) == UPTO


def test_dropping_again_changes_nothing(owner_engine: Engine, folder: Path) -> None:
    assert drop(owner_engine, folder, UPTO) == UPTO
    shutil.rmtree(folder)
    assert drop(owner_engine, folder, UPTO) == UPTO
    with owner_engine.begin() as connection:
        assert connection.execute(text("SELECT drop_archived(200)")).scalar() == 0


SEGMENT = "INSERT INTO segments SELECT 301, 400, 100, {previous}, {chain}, root, {at}, manifest FROM segments LIMIT 1"
CHAIN = "(SELECT chain FROM events WHERE position = {})"
AT = "(SELECT at FROM events WHERE position = {})"
FORGED = {
    "no chain before it": SEGMENT.format(previous="sha256('x')", chain=CHAIN.format(400), at=AT.format(400)),
    "another end": SEGMENT.format(previous=CHAIN.format(300), chain=CHAIN.format(399), at=AT.format(400)),
    "another time": SEGMENT.format(previous=CHAIN.format(300), chain=CHAIN.format(400), at="now()"),
    "a gap before it": SEGMENT.format(previous=CHAIN.format(300), chain=CHAIN.format(400), at=AT.format(400)).replace(
        "301, 400, 100", "302, 400, 99"
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_segment_that_is_not_the_logs_is_not_taken_into_the_table(
    owner_engine: Engine, folder: Path, what: str
) -> None:
    with pytest.raises(DBAPIError, match=r"does not (follow|end)"), owner_engine.begin() as connection:
        connection.execute(text(FORGED[what]))
    assert segment(folder).is_dir()


def refusal(engine: Engine, statement: str) -> str:
    with pytest.raises(DBAPIError) as caught, engine.begin() as connection:
        connection.execute(text(statement))
    return str(caught.value.orig)


def test_what_is_said_of_segments_and_drops_is_as_fixed_as_an_event(
    engine: Engine, owner_engine: Engine, database: Database, folder: Path
) -> None:
    drop(owner_engine, folder, Position(100))
    with owner_engine.begin() as connection:
        connection.execute(text("INSERT INTO dropped_markers VALUES (1, 'before', '[]')"))
    for table, column in (("segments", "at"), ("dropped", "at"), ("dropped_markers", "type"), ("events_1", "at")):
        changed = f"UPDATE {table} SET {column} = {column}"  # noqa: S608
        for statement in (f"DELETE FROM {table}", f"TRUNCATE {table}", changed):  # noqa: S608
            assert "is append-only" in refusal(owner_engine, statement)
            if database.app_role is not None:
                assert "permission denied" in refusal(engine, statement)


def test_the_rest_of_a_partition_has_the_guards_of_a_whole_one(owner_engine: Engine, folder: Path) -> None:
    guards = text("""SELECT tgname, tgenabled, tgtype, tgfoid::regproc::text, tgparentid <> 0 FROM pg_trigger
        WHERE tgrelid = to_regclass(:table) ORDER BY 1""")
    shape = text("""SELECT (SELECT array_agg(conname || pg_get_constraintdef(oid) ORDER BY conname) FROM pg_constraint
        WHERE conrelid = to_regclass(:table)), (SELECT array_agg(pg_get_indexdef(indexrelid) ORDER BY 1) FROM pg_index
        WHERE indrelid = to_regclass(:table)), (SELECT relacl::text FROM pg_class WHERE oid = to_regclass(:table))""")

    def look() -> list[object]:
        with owner_engine.connect() as connection:
            values = {"table": "events_1"}
            return [connection.execute(guards, values).all(), connection.execute(shape, values).one()]

    before = look()
    drop(owner_engine, folder, Position(100))
    assert look() == before
    assert before[0]


def test_only_the_owner_archives_and_drops(engine: Engine, database: Database, folder: Path) -> None:
    if database.app_role is None:
        pytest.skip("this server's application is its owner")
    with pytest.raises(NotTheOwner, match="FLYWHEEL_OWNER_URL"):
        archive(engine, folder, UPTO)
    with pytest.raises(NotTheOwner):
        drop(engine, folder, UPTO)
    for statement in ("SELECT drop_archived(100)", "SELECT check_drop(100)", "SELECT guard_partition('events_1')"):
        assert "permission denied" in refusal(engine, statement)
    assert "permission denied" in refusal(engine, "INSERT INTO segments SELECT * FROM segments")
    assert "permission denied" in refusal(engine, "INSERT INTO dropped VALUES (1, now())")


def test_a_drop_does_not_wait_for_a_reader_for_ever(engine: Engine, owner_engine: Engine, folder: Path) -> None:
    with engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM events"))
        with pytest.raises(ArchiveBusy, match="try again"):
            drop(owner_engine, folder, UPTO, patience_s=1)
    assert live_from(engine) == 1
    assert drop(owner_engine, folder, UPTO) == UPTO


def test_appends_go_on_while_positions_are_archived_and_dropped(
    engine: Engine, owner_engine: Engine, folder: Path
) -> None:
    store, stop = PostgresStore(engine, archive=folder), threading.Event()

    def write(number: int) -> int:
        done = 0
        while not stop.is_set():
            store.append([Append(f"w{number}", (WON,), "test", expect=done)])
            done += 1
        return done

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, number) for number in range(2)]
        for upto in (100, 200, 300):
            drop(owner_engine, folder, Position(upto))
            archive(owner_engine, folder, Position(upto + 300), size=100)
        stop.set()
        written = [writer.result() for writer in writers]
    assert min(written) > 0
    rows = list(verify_chain(store.read_stored(), after=START, previous=GENESIS))
    assert len(rows) == store.head() == END + sum(written)


def test_two_archivers_take_turns(owner_engine: Engine, database: Database, tmp_path: Path) -> None:
    owners = [open_engine(database.owner_url) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda owner: archive(owner, tmp_path, UPTO, size=20), owners))
    for owner in owners:
        owner.dispose()
    assert sum(one.events for one in made) == UPTO
    assert sum(one.segments for one in made) == 15
    assert [manifest.first for manifest in segments(owner_engine)] == list(range(1, 300, 20))
    assert len(list((tmp_path / "default").iterdir())) == 15
    assert drop(owner_engine, tmp_path, UPTO) == UPTO


def forget(owner: Engine) -> None:
    """As if the database had been restored to a time before it knew of segments."""
    with owner.begin() as connection:
        connection.execute(text("ALTER TABLE segments DISABLE TRIGGER ALL"))
        connection.execute(text("DELETE FROM segments"))
        connection.execute(text("ALTER TABLE segments ENABLE TRIGGER ALL"))


def test_a_whole_segment_that_the_table_does_not_know_is_taken_in_as_it_is(owner_engine: Engine, folder: Path) -> None:
    before = [manifest.text() for manifest in segments(owner_engine)]
    times = {path: path.stat().st_mtime_ns for path in (folder / "default").rglob("*.parquet")}
    forget(owner_engine)
    assert archive(owner_engine, folder, UPTO, size=7).segments == 3
    assert [manifest.text() for manifest in segments(owner_engine)] == before
    assert {path: path.stat().st_mtime_ns for path in (folder / "default").rglob("*.parquet")} == times


def test_a_damaged_segment_that_the_table_does_not_know_is_not_taken_in(owner_engine: Engine, folder: Path) -> None:
    forget(owner_engine)
    flipped(segment(folder) / "runs.parquet")
    with pytest.raises(SegmentDamaged, match="101-200"):
        archive(owner_engine, folder, UPTO)
    assert [manifest.folder for manifest in segments(owner_engine)] == ["1-100"]


def test_the_segments_of_another_log_are_left_alone(
    folder: Path, empty_engine: Engine, empty_database: Database
) -> None:
    PostgresStore(empty_engine).append([Append("s", (WON,) * 400, "test")])
    other = open_engine(empty_database.owner_url)
    with pytest.raises(SegmentForeign, match="FLYWHEEL_ARCHIVE"):
        archive(other, folder, UPTO)
    other.dispose()
    assert len(list((folder / "default").iterdir())) == 3


def test_a_folder_that_cannot_be_written_to_is_named(owner_engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArchiveUnwritable, match=str(tmp_path)):
        archive(owner_engine, tmp_path / "file", UPTO)
    assert list(segments(owner_engine)) == []
