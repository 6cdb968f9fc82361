"""Segments and the table as one log: what was archived and dropped is read, repeated and refused as before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from eventlog.archive.drop import drop
from eventlog.archive.errors import ArchiveMissing
from eventlog.archive.segments import live_from, segments
from eventlog.archive.write import Archived, archive
from eventlog.chain import GENESIS, verify_chain
from eventlog.database import open_engine
from eventlog.disowned import read_in_force
from eventlog.events import EVENT_TYPES
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Conflict, KeyReused, Position, Repeated, Stored
from eventlog.transfer import export_log, import_log
from migrations.migrate import migrate
from projections import ALL
from projections.engine.compare import compare
from projections.engine.projection import digest_changes, replay
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews, ReplayedViews
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_log, golden_rows, sample
from tests.integration.test_reads_stay_small import statements

END = len(golden_rows())
BORDER = 400
WON, LOST = sample("RewriteWon"), sample("RewriteLost")

Plain = tuple[object, ...]


def plain(row: Stored) -> Plain:
    """A row by value: the archive keeps the canonical text of a payload, the table jsonb's."""
    envelope = (row.position, row.stream, row.version, row.at, row.actor, row.cause, row.type, row.schema_version)
    return (*envelope, json.loads(row.payload), row.digest, row.chain)


GOLDEN_ROWS = [plain(row) for row in golden_rows()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where segments of all projects are kept."""
    return tmp_path / "archive"


@pytest.fixture
def store(engine: Engine, owner_engine: Engine, folder: Path) -> PostgresStore:
    """The golden log, its first 400 positions in segments of 150 and out of the table."""
    archive(owner_engine, folder, Position(BORDER), size=150)
    assert drop(owner_engine, folder, Position(BORDER)) == BORDER
    return PostgresStore(engine, archive=folder)


def live_positions(engine: Engine) -> tuple[int, int, int]:
    with engine.connect() as connection:
        row = connection.execute(text("SELECT min(position), max(position), count(*) FROM events")).one()
    return tuple(row)


def test_archiving_alone_leaves_the_table_as_it_was(engine: Engine, owner_engine: Engine, folder: Path) -> None:
    assert archive(owner_engine, folder, Position(BORDER), size=150) == Archived(1, 400, 400, 3)
    assert [manifest.folder for manifest in segments(engine)] == ["1-150", "151-300", "301-400"]
    assert [entry.name for entry in sorted((folder / "default").iterdir())] == ["1-150", "151-300", "301-400"]
    assert live_positions(engine) == (1, END, END)
    assert live_from(engine) == 1
    assert [plain(row) for row in PostgresStore(engine).read_stored()] == GOLDEN_ROWS


def test_archiving_again_goes_on_where_it_ended_and_does_nothing_twice(owner_engine: Engine, folder: Path) -> None:
    assert archive(owner_engine, folder, Position(100), size=60) == Archived(1, 100, 100, 2)
    assert archive(owner_engine, folder, Position(100)) == Archived(0, 0, 0, 0)
    assert archive(owner_engine, folder, Position(50)) == Archived(0, 0, 0, 0)
    assert archive(owner_engine, folder, Position(END), size=500) == Archived(101, END, END - 100, 2)
    assert [(m.first, m.last) for m in segments(owner_engine)] == [(1, 60), (61, 100), (101, 600), (601, END)]


def test_what_was_dropped_is_out_of_the_table_and_in_every_read(store: PostgresStore, engine: Engine) -> None:
    assert live_positions(engine) == (BORDER + 1, END, END - BORDER)
    assert live_from(engine) == BORDER + 1
    assert store.head() == END
    assert [plain(row) for row in store.read_stored()] == GOLDEN_ROWS
    assert list(store.read()) == list(golden_log())
    assert len(list(verify_chain(store.read_stored(), after=START, previous=GENESIS))) == END


@pytest.mark.parametrize(
    ("after", "upto"),
    [(0, 1), (0, 150), (149, 151), (150, 150), (299, 301), (399, 401), (400, 402), (0, 652), (390, 5000), (500, 20)],
)
def test_a_read_of_any_range_gives_it_whole(store: PostgresStore, after: int, upto: int) -> None:
    found = [plain(row) for row in store.read_stored(after=Position(after), upto=Position(upto))]
    assert found == GOLDEN_ROWS[after : max(after, upto)]


def test_a_stream_is_read_across_the_border(store: PostgresStore) -> None:
    streams = sorted({row.stream for row in golden_rows()})
    across = {s for s in streams if len({r.position > BORDER for r in golden_rows() if r.stream == s}) == 2}
    assert "champion" in across
    assert len(streams) > 20
    for stream in [*sorted(across), *streams[::7]]:
        found = list(store.read(stream=stream))
        assert found == [event for event in golden_log() if event.stream == stream]
        assert [event.version for event in found] == list(range(1, len(found) + 1))
        late = list(store.read(stream=stream, after=Position(200), upto=Position(500)))
        assert late == [event for event in found if 200 < event.position <= 500]


@pytest.mark.parametrize("types", [["RewardGraded"], ["RewriteWon", "ChampionPointed"], ["SubjectErased"], []])
def test_types_are_read_across_the_border(store: PostgresStore, types: list[str]) -> None:
    wanted = [event for event in golden_log() if event.event.type in types]
    assert list(store.read(types=types)) == wanted
    assert [row.position for row in store.read_stored(types=types)] == [event.position for event in wanted]
    both = list(store.read(stream="champion", types=types))
    assert both == [event for event in wanted if event.stream == "champion"]


def test_what_an_actor_wrote_is_read_across_the_border(store: PostgresStore) -> None:
    for actor in sorted({row.actor for row in golden_rows()}):
        wanted = [event for event in golden_log() if event.actor == actor]
        assert list(store.read(actor=actor)) == wanted
        rewards = [event for event in wanted if event.event.type == "RewardGraded"]
        assert list(store.read(actor=actor, types=["RewardGraded"])) == rewards
        champion = [event for event in wanted if event.stream == "champion"]
        assert list(store.read(actor=actor, stream="champion")) == champion


def test_events_are_counted_by_type_across_the_border(store: PostgresStore) -> None:
    expected: dict[str, int] = {}
    for row in golden_rows():
        expected[row.type] = expected.get(row.type, 0) + 1
    assert store.counts() == expected


def test_a_time_names_the_same_position_wherever_that_is(store: PostgresStore) -> None:
    for row in golden_rows()[::13]:
        expected = max(other.position for other in golden_rows() if other.at <= row.at)
        assert store.position_at(row.at) == expected
        before = [other.position for other in golden_rows() if other.at < row.at]
        assert store.position_at(row.at - timedelta(microseconds=1)) == max(before, default=0)
    assert store.position_at(golden_rows()[0].at - timedelta(days=1)) == 0
    assert store.position_at(golden_rows()[-1].at + timedelta(days=1)) == END
    naive = golden_rows()[200].at.replace(tzinfo=None)
    assert store.position_at(naive) == store.position_at(golden_rows()[200].at)


def test_a_subscriber_from_the_start_meets_every_event_once(store: PostgresStore) -> None:
    batches = store.subscribe(after=START, until=lambda last: last >= END)
    assert [event.position for batch in batches for event in batch] == list(range(1, END + 1))


def test_keys_and_versions_of_dropped_positions_still_hold(
    empty_engine: Engine, empty_database: Database, folder: Path
) -> None:
    store = PostgresStore(empty_engine, archive=folder)
    old = Append("s", (WON, LOST), "test", expect=0, key="old")
    assert list(store.append([old])) == [Committed(Position(1), Position(2), 2)]
    store.append([Append("t", (WON,), "test")])
    owner = open_engine(empty_database.owner_url)
    archive(owner, folder, Position(2))
    drop(owner, folder, Position(2))
    owner.dispose()
    assert live_from(empty_engine) == 3
    assert list(store.append([old])) == [Repeated(Position(1), Position(2))]
    misused = Append("s", (LOST,), "test", key="old")
    assert list(store.append([misused])) == [KeyReused("old", Position(1), Position(2))]
    assert list(store.append([Append("s", (LOST,), "test", expect=0)])) == [Conflict("s", 0, 2)]
    assert list(store.append([Append("s", (LOST,), "test", expect=2)])) == [Committed(Position(4), Position(4), 3)]
    assert [(event.position, event.version) for event in store.read(stream="s")] == [(1, 1), (2, 2), (4, 3)]
    assert len(list(verify_chain(store.read_stored(), after=START, previous=GENESIS))) == 4


def test_projections_replay_to_the_same_digests_after_a_drop(
    store: PostgresStore, engine: Engine, database: Database
) -> None:
    before = {fold.name: digest_changes(replay(fold, golden_log())) for fold in ALL}
    views = PostgresViews(engine, store, Position(END))
    assert {row.projection: row.rebuilt for row in compare(views, ALL)} == before
    assert [row.projection for row in compare(views, ALL) if not row.is_identical] == []


@pytest.mark.parametrize("upto", [1, BORDER - 1, BORDER, BORDER + 1, END])
def test_every_projection_answers_as_of_either_side(store: PostgresStore, engine: Engine, upto: int) -> None:
    views, model = PostgresViews(engine, store, Position(upto)), ReplayedViews(store, Position(upto))
    for fold in ALL:
        assert views.find(fold) == model.find(fold)


def test_an_export_spans_both_and_an_import_gives_one_table(
    store: PostgresStore, engine: Engine, empty_database: Database, tmp_path: Path, folder: Path
) -> None:
    assert export_log(engine, tmp_path / "log.gz", archive=folder) == END
    target = open_engine(empty_database.owner_url)
    import_log(target, tmp_path / "log.gz")
    assert [plain(row) for row in PostgresStore(target).read_stored()] == GOLDEN_ROWS
    assert (live_from(target), list(segments(target))) == (1, [])
    target.dispose()


def test_a_reader_without_the_folder_is_told_where_it_should_be(store: PostgresStore, engine: Engine) -> None:
    for blind in (PostgresStore(engine), PostgresStore(engine, archive=Path("/nowhere"))):
        live = blind.read_stored(after=Position(BORDER), upto=Position(END))
        assert [row.position for row in live] == list(range(BORDER + 1, END + 1))
        assert blind.append([Append("s", (WON,), "test")])
        for read in (blind.read_stored(), blind.read(stream="champion"), blind.read(types=["ChampionPointed"])):
            with pytest.raises(ArchiveMissing, match="FLYWHEEL_ARCHIVE"):
                list(read)
        with pytest.raises(ArchiveMissing):
            blind.position_at(golden_rows()[3].at)
        with pytest.raises(ArchiveMissing):
            list(blind.read_stored(after=Position(BORDER - 1)))


def test_a_drop_while_a_reader_is_under_way_takes_nothing_from_it(
    engine: Engine, owner_engine: Engine, folder: Path
) -> None:
    store = PostgresStore(engine, archive=folder)
    store.append([Append("s", (WON,) * 2500, "test")])
    archive(owner_engine, folder, Position(2900))
    reader = store.read_stored()
    seen = [next(reader) for _ in range(10)]
    drop(owner_engine, folder, Position(2900))
    seen += reader
    assert [row.position for row in seen] == list(range(1, END + 2501))
    types = store.read_stored(types=["RewriteWon"], upto=Position(END + 2500))
    assert sum(1 for _ in types) == 2500 + sum(row.type == "RewriteWon" for row in golden_rows())


def test_a_partition_is_split_again_and_again_and_migrating_makes_no_old_one(
    engine: Engine, owner_engine: Engine, database: Database, folder: Path
) -> None:
    archive(owner_engine, folder, Position(600), size=100)
    store = PostgresStore(engine, archive=folder)
    for upto in (100, 300, 600):
        drop(owner_engine, folder, Position(upto))
        migrate(owner_engine, app_role=database.app_role)
        assert partitions(engine)[:2] == [("events_1", upto + 1, 5_000_001), ("events_5000001", 5_000_001, 10_000_001)]
        assert list(store.append([Append("s", (WON,), "test")]))
    assert [row.position for row in store.read_stored()] == list(range(1, END + 4))
    with owner_engine.connect() as connection:
        marks = connection.execute(text("SELECT upto FROM dropped ORDER BY upto")).scalars().all()
    assert marks == [100, 300, 600]


def partitions(engine: Engine) -> list[tuple[str, int, int]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text("SELECT name, low, high FROM partitions()"))]


@pytest.fixture
def small(empty_database: Database) -> Iterator[Engine]:
    """The owner's engine on an empty log whose partitions are of 100 positions."""
    owner = open_engine(empty_database.owner_url)
    with owner.begin() as connection:
        connection.execute(text("DROP TABLE events_1"))
        for low, high in ((1, 101), (101, 201), (201, 301), (301, 5_000_001)):
            bounds = f"FOR VALUES FROM ({low}) TO ({high})"
            connection.execute(text(f"CREATE TABLE events_{low} PARTITION OF events {bounds}"))
            connection.execute(text("SELECT guard_partition(:name)"), {"name": f"events_{low}"})
    yield owner
    owner.dispose()


def test_whole_partitions_go_as_they_are(
    small: Engine, empty_engine: Engine, empty_database: Database, folder: Path
) -> None:
    store = PostgresStore(empty_engine, archive=folder)
    store.append([Append(event.stream, (event.event,), event.actor) for event in golden_log()])
    before = [plain(row) for row in store.read_stored()]
    archive(small, folder, Position(350), size=50)
    for upto, left in ((200, (201, 301)), (250, (251, 301)), (300, (301, 5_000_001)), (350, (351, 5_000_001))):
        drop(small, folder, Position(upto))
        migrate(small, app_role=empty_database.app_role)
        assert partitions(empty_engine)[0][1:] == left
        assert live_positions(empty_engine)[0] == upto + 1
        assert [plain(row) for row in store.read_stored()] == before


def test_every_event_type_comes_back_from_the_archive(
    empty_engine: Engine, empty_database: Database, folder: Path
) -> None:
    store = PostgresStore(empty_engine, archive=folder)
    store.append([Append(f"s/{kind}", (sample(kind),), "test") for kind in EVENT_TYPES])
    store.append([Append("last", (WON,), "test")])
    before = [plain(row) for row in store.read_stored()]
    owner = open_engine(empty_database.owner_url)
    archive(owner, folder, Position(len(EVENT_TYPES)))
    drop(owner, folder, Position(len(EVENT_TYPES)))
    owner.dispose()
    assert [plain(row) for row in store.read_stored()] == before
    assert [event.event for event in store.read()][:-1] == [sample(kind) for kind in EVENT_TYPES]


@pytest.fixture
def marked(engine: Engine, folder: Path) -> PostgresStore:
    """The golden log with an event that was disowned, the disowning, and a withdrawal."""
    store = PostgresStore(engine, archive=folder)
    store.append([Append("s", (WON,), "test")])
    store.append([Append("disownings", (sample("EventsDisowned", positions=[END + 1]),), "test")])
    store.append([Append("withdrawals", (sample("RunsWithdrawn", runs=["theirs"]),), "test")])
    Projector(engine, store=store).catch_up()
    store.append([Append("s", (LOST,), "test")])
    return store


def test_what_was_disowned_is_known_without_the_folder_after_the_disowning_was_dropped(
    marked: PostgresStore, engine: Engine, owner_engine: Engine, folder: Path
) -> None:
    archive(owner_engine, folder, Position(END + 3), size=150)
    for _ in range(2):
        assert drop(owner_engine, folder, Position(END + 3)) == END + 3
    blind, gone = PostgresStore(engine), frozenset({Position(END + 1)})
    with statements(engine) as found:
        assert [blind.disowned_positions(), blind.disowned_positions(Position(END + 1))] == [gone, frozenset()]
    assert len(found) == 2
    assert [each.position for each in read_in_force(blind, after=Position(END + 3))] == [END + 4]
    assert [each.position for each in read_in_force(marked, stream="s")] == [END + 4]
    assert Projector(engine, store=blind).catch_up() == END + 4
    assert all(same.is_identical for same in compare(PostgresViews(engine, marked, Position(END + 4))))


def test_a_disowning_that_was_dropped_before_the_database_kept_it_is_read_from_the_archive(
    marked: PostgresStore, engine: Engine, owner_engine: Engine, folder: Path
) -> None:
    archive(owner_engine, folder, Position(END + 3), size=150)
    with owner_engine.begin() as connection:
        connection.execute(text("SELECT drop_archived(:upto)"), {"upto": END + 3})
        connection.execute(text("INSERT INTO dropped_markers SELECT max(upto), 'before', '[]' FROM dropped"))
    assert marked.disowned_positions() == {END + 1}
    marked.append([Append("disownings", (sample("EventsDisowned", positions=[END + 4]),), "test")])
    assert [marked.disowned_positions(), marked.disowned_positions(Position(END + 2))] == [
        {END + 1, END + 4},
        {END + 1},
    ]
    with pytest.raises(ArchiveMissing):
        PostgresStore(engine).disowned_positions()
    assert Projector(engine, store=marked).catch_up() == END + 5
    assert all(same.is_identical for same in compare(PostgresViews(engine, marked, Position(END + 5))))
