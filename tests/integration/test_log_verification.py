"""Verifying side by side: what is whole verifies however it is cut, and the lowest damage is told by its position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from eventlog.errors import BrokenChain, FlywheelError, GuardDown
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Position
from eventlog.verification import Opening, chain_at, ranges, store_on_one_connection, verify_log
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_rows, sample

HEAD = golden_rows()[-1].position


@given(st.integers(0, 200_000), st.integers(0, 200_000), st.integers(1, 64))
def test_ranges_cover_each_position_once_and_in_order(after: int, amount: int, workers: int) -> None:
    found = ranges(Position(after), Position(after + amount), workers)
    ends = [after, *(part.upto for part in found)]
    assert [part.after for part in found] == ends[:-1]
    assert ends[-1] == after + amount
    assert all(part.after < part.upto for part in found)


@pytest.fixture
def opening(database: Database) -> Opening:
    return partial(store_on_one_connection, database.app_url, "default")


@pytest.fixture
def here(engine: Engine) -> Opening:
    """A store of this process."""

    @contextmanager
    def opened() -> Iterator[PostgresStore]:
        yield PostgresStore(engine)

    return opened


@pytest.mark.reads
@pytest.mark.parametrize("workers", [1, 2])
def test_a_whole_log_verifies_to_the_chain_of_its_head(opening: Opening, workers: int) -> None:
    told: list[int] = []
    chain = verify_log(opening, after=START, upto=HEAD, workers=workers, progress=told.append)
    assert chain == golden_rows()[-1].chain
    assert sum(told) == HEAD


@pytest.mark.reads
@pytest.mark.parametrize(("after", "upto"), [(0, 1), (0, 652), (99, 100), (651, 652), (300, 300), (652, 652), (0, 0)])
def test_any_range_verifies_from_the_chain_of_the_row_before_it(here: Opening, after: int, upto: int) -> None:
    chain = verify_log(here, after=Position(after), upto=Position(upto))
    assert chain == (golden_rows()[upto - 1].chain if upto else bytes(32))


EVENTS, VERSIONS, KEYS = "events", "stream_versions", "append_keys"
OF_100 = "SELECT first_position FROM append_keys WHERE 100 BETWEEN first_position AND last_position"
OF_LAST = "SELECT first_position FROM append_keys WHERE last_position = 652"
OF_FIRST = "SELECT last_position FROM append_keys WHERE first_position = 1"
OF_BLOCK = "position - events < 100 AND position >= 100"
FIRST_OF_BLOCK = f"SELECT position - events + 1 FROM stream_versions WHERE {OF_BLOCK}"  # noqa: S608 ours
BEFORE_BLOCK = f"SELECT position - events FROM stream_versions WHERE {OF_BLOCK}"  # noqa: S608 ours
FIRST_OF_LAST = "SELECT position - events + 1 FROM stream_versions WHERE position = 652"
UNKEYED = "DELETE FROM append_keys WHERE 100 BETWEEN first_position AND last_position"
DAMAGE = [
    (EVENTS, "UPDATE events SET actor = 'another' WHERE position IN (100, 600)", 100),
    (EVENTS, "DELETE FROM events WHERE position IN (100, 101)", 100),
    (EVENTS, "DELETE FROM events WHERE position > 640", 641),
    (EVENTS, "DELETE FROM events WHERE position = 1", 1),
    (EVENTS, "UPDATE events SET chain = decode(repeat('00', 32), 'hex') WHERE position = 82", 82),
    (VERSIONS, f"DELETE FROM stream_versions WHERE {OF_BLOCK}", FIRST_OF_BLOCK),  # noqa: S608 ours
    (VERSIONS, f"UPDATE stream_versions SET position = position + 1 WHERE {OF_BLOCK}", FIRST_OF_BLOCK),  # noqa: S608 ours
    (VERSIONS, f"UPDATE stream_versions SET version = version + 1000 WHERE {OF_BLOCK}", FIRST_OF_BLOCK),  # noqa: S608 ours
    (VERSIONS, f"UPDATE stream_versions SET stream = 'another' WHERE {OF_BLOCK}", FIRST_OF_BLOCK),  # noqa: S608 ours
    (VERSIONS, f"UPDATE stream_versions SET events = events + 1 WHERE {OF_BLOCK}", BEFORE_BLOCK),  # noqa: S608 ours
    (VERSIONS, f"UPDATE stream_versions SET events = events - 1 WHERE {OF_BLOCK}", FIRST_OF_BLOCK),  # noqa: S608 ours
    (VERSIONS, "UPDATE stream_versions SET events = 0 WHERE position = 652", FIRST_OF_LAST),
    (VERSIONS, "INSERT INTO stream_versions VALUES ('another', 3, 102, 3)", 100),
    (VERSIONS, "INSERT INTO stream_versions VALUES ('another', 3, 654, 3)", 652),
    (VERSIONS, "INSERT INTO stream_versions VALUES ('another', 1, 100)", 100),
    (VERSIONS, "INSERT INTO stream_versions VALUES ('another', 2, 100)", 100),
    (VERSIONS, "INSERT INTO stream_versions VALUES ('another', 1, 653)", 653),
    (VERSIONS, "INSERT INTO stream_versions VALUES ('another', 1, 0)", 0),
    (KEYS, UNKEYED, OF_100),
    (KEYS, "DELETE FROM append_keys WHERE last_position = 652", OF_LAST),
    (KEYS, "INSERT INTO append_keys VALUES ('another', '', 100, 100)", 100),
    (KEYS, "INSERT INTO append_keys VALUES ('another', '', 653, 700)", 653),
    (KEYS, "UPDATE append_keys SET last_position = last_position - 1 WHERE first_position = 1", OF_FIRST),
    (KEYS, "UPDATE append_keys SET first_position = first_position + 1 WHERE first_position = 1", 1),
    (KEYS, "INSERT INTO append_keys VALUES ('another', '', 0, -5)", 0),
    (KEYS, "UPDATE append_keys SET digest = sha256('') WHERE 100 BETWEEN first_position AND last_position", OF_100),
]


def damaged(engine: Engine, table: str, damage: str) -> None:
    """As the owner could do it: the guards off, the damage, and the guards on again."""
    with engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        connection.execute(text(damage))
    with engine.begin() as connection:
        enabled_always(connection, table)


def enabled_always(connection: Connection, table: str) -> None:
    names = connection.execute(
        text("""SELECT tgrelid::regclass::text AS place, tgname FROM pg_trigger
            WHERE tgrelid = CAST(:t AS regclass) OR tgrelid IN
                (SELECT inhrelid FROM pg_inherits WHERE inhparent = CAST(:t AS regclass))"""),
        {"t": table},
    ).all()
    for row in names:
        connection.execute(text(f"ALTER TABLE {row.place} ENABLE ALWAYS TRIGGER {row.tgname}"))


@pytest.mark.parametrize(("table", "damage", "position"), DAMAGE, ids=[damage for _, damage, _ in DAMAGE])
def test_damage_is_told_by_its_lowest_position(
    here: Opening, owner_engine: Engine, table: str, damage: str, position: int | str
) -> None:
    with owner_engine.connect() as connection:
        expected = connection.execute(text(position)).scalar() if isinstance(position, str) else position
    damaged(owner_engine, table, damage)
    with pytest.raises(BrokenChain) as caught:
        verify_log(here, after=START, upto=PostgresStore(owner_engine).head())
    assert caught.value.facts["position"] == expected


def test_the_first_damage_is_the_same_however_many_look_for_it(opening: Opening, owner_engine: Engine) -> None:
    damaged(owner_engine, EVENTS, "UPDATE events SET actor = 'another' WHERE position IN (333, 500, 640)")
    block = "position - events < 332 AND position >= 332"
    with owner_engine.connect() as connection:
        first = connection.execute(
            text(f"SELECT position - events + 1 FROM stream_versions WHERE {block}")  # noqa: S608 ours
        ).scalar_one()
    damaged(owner_engine, VERSIONS, f"DELETE FROM stream_versions WHERE {block} OR position = 652")  # noqa: S608 ours
    told = set()
    for workers in (1, 2, 3):
        with pytest.raises(FlywheelError) as caught:
            verify_log(opening, after=START, upto=HEAD, workers=workers)
        told.add(str(caught.value))
    assert len(told) == 1
    assert f"damaged at position {first}:" in told.pop()


def test_a_range_is_only_judged_by_what_is_in_it(here: Opening, owner_engine: Engine) -> None:
    damaged(owner_engine, EVENTS, "UPDATE events SET actor = 'another' WHERE position = 100")
    damaged(owner_engine, VERSIONS, f"DELETE FROM stream_versions WHERE {OF_BLOCK}")  # noqa: S608 ours
    damaged(owner_engine, KEYS, UNKEYED)
    assert verify_log(here, after=START, upto=Position(60))
    assert verify_log(here, after=Position(200), upto=Position(HEAD - 1))
    with pytest.raises(BrokenChain):
        verify_log(here, after=Position(99), upto=Position(100))


def test_an_end_that_was_cut_off_is_found_from_any_range(here: Opening, owner_engine: Engine) -> None:
    damaged(owner_engine, EVENTS, "DELETE FROM events WHERE position > 640")
    with pytest.raises(BrokenChain) as caught:
        verify_log(here, after=Position(10), upto=Position(20))
    assert caught.value.facts["position"] == 641


def test_a_log_that_grows_while_it_is_verified_is_whole(here: Opening, engine: Engine) -> None:
    def grow(_events: int) -> None:
        PostgresStore(engine).append([Append("s", (sample("RewriteWon"),), "test")])

    assert verify_log(here, after=START, upto=Position(300), progress=grow) == golden_rows()[299].chain
    assert verify_log(here, after=START, upto=HEAD, progress=grow) == golden_rows()[-1].chain


def test_the_row_before_a_range_must_be_there(here: Opening, owner_engine: Engine) -> None:
    damaged(owner_engine, EVENTS, "DELETE FROM events WHERE position = 100")
    with pytest.raises(BrokenChain) as caught:
        chain_at(PostgresStore(owner_engine), Position(100))
    assert caught.value.facts["position"] == 100


GUARDS = [
    ("events", "ALTER TABLE events DISABLE TRIGGER refuse_change"),
    ("events_5000001", "ALTER TABLE events_5000001 DISABLE TRIGGER guard_insert"),
    ("events_1", "ALTER TABLE events_1 ENABLE TRIGGER refuse_truncate"),
    ("stream_versions", "ALTER TABLE stream_versions ENABLE REPLICA TRIGGER refuse_change"),
    ("append_keys", "DROP TRIGGER refuse_truncate ON append_keys"),
]


@pytest.mark.parametrize(("table", "statement"), GUARDS, ids=[statement for _, statement in GUARDS])
def test_a_guard_that_was_taken_away_is_named(here: Opening, owner_engine: Engine, table: str, statement: str) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text(statement))
    with pytest.raises(GuardDown) as caught:
        verify_log(here, after=START, upto=HEAD)
    assert str(caught.value.facts["table"]).startswith(table)
