"""What PostgreSQL itself refuses, whoever asks. These tests look at the tables, because the guards stand on them."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from eventlog.chain import GENESIS, event_digest, link
from eventlog.postgres import PostgresStore
from eventlog.store import Position, Stored
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

WON = sample("RewriteWon")
DAWN = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = ("events_1", "events_5000001")
GUARDED = ("events", *PARTITIONS, "stream_versions", "append_keys")
CHANGES = (
    "UPDATE {table} SET {column} = {column}",
    "DELETE FROM {table}",
    "TRUNCATE {table}",
    "TRUNCATE {table} CASCADE",
    (
        "INSERT INTO {table} SELECT * FROM {table} LIMIT 1"
        " ON CONFLICT ({conflict}) DO UPDATE SET {column} = excluded.{column}"
    ),
    "MERGE INTO {table} t USING {table} s ON t.{column} = s.{column} WHEN MATCHED THEN DELETE",
)
COLUMN = {"stream_versions": ("stream", "stream, version"), "append_keys": ("key", "key")}


def statements(table: str) -> list[str]:
    column, conflict = COLUMN.get(table, ("position", "position"))
    return [change.format(table=table, column=column, conflict=conflict) for change in CHANGES]


def refusal(engine: Engine, statement: str) -> str:
    """What the database says to a statement that it refuses."""
    with pytest.raises(DBAPIError) as caught, engine.begin() as connection:
        connection.execute(text(statement))
    return str(caught.value.orig)


def fingerprint(engine: Engine) -> list[object]:
    rows = "SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {} t"
    with engine.connect() as connection:
        tables = ("events", "stream_versions", "append_keys")
        return [connection.execute(text(rows.format(table))).one() for table in tables]


@pytest.fixture
def apart(database: Database) -> None:
    """The application's role is another than the owner's."""
    if database.app_role is None:
        pytest.skip("this server's application is its owner")


@pytest.mark.usefixtures("apart")
def test_a_fact_cannot_be_changed_by_the_application_or_by_the_owner(engine: Engine, owner_engine: Engine) -> None:
    before = fingerprint(owner_engine)
    for table in GUARDED:
        for statement in statements(table):
            assert "permission denied" in refusal(engine, statement)
            # an empty partition has no row to refuse, but it has a TRUNCATE to refuse
            if table not in PARTITIONS[1:] or "TRUNCATE" in statement:
                assert "is append-only" in refusal(owner_engine, statement), statement
    assert fingerprint(owner_engine) == before


def test_changes_that_match_no_row_by_chance_are_still_refused_where_one_matches(owner_engine: Engine) -> None:
    assert "is append-only" in refusal(owner_engine, "UPDATE events SET actor = 'x' WHERE position = 1")
    assert "is append-only" in refusal(owner_engine, "DELETE FROM events_1 WHERE position = 652")


@pytest.mark.usefixtures("apart")
def test_the_application_writes_events_past_the_guard_of_their_table_alone_and_nothing_else(engine: Engine) -> None:
    for table in ("stream_versions", "append_keys", "migration"):
        assert "permission denied" in refusal(engine, f"INSERT INTO {table} SELECT * FROM {table}")  # noqa: S608
    with engine.connect() as connection:
        last = last_of(connection)
    for row in (successor(last, gap=1), successor(last, is_linked=False), successor(last, gap=-1)):
        for table in ("events", "events_1"):
            with (
                pytest.raises(DBAPIError, match=r"follow the head|chain breaks|duplicate"),
                engine.begin() as connection,
            ):
                insert(connection, table, row)


def test_versions_that_do_not_follow_their_stream_are_refused(engine: Engine, owner_engine: Engine) -> None:
    with engine.connect() as connection:
        last = last_of(connection)
    for version in (2, 99):
        ahead = replace(successor(last), stream="elsewhere", version=version)
        ahead = replace(ahead, chain=link(last.chain, ahead))
        for opened in (engine, owner_engine):
            with pytest.raises(DBAPIError, match="versions of stream elsewhere"), opened.begin() as connection:
                insert(connection, "events", ahead)


def test_a_key_whose_event_never_came_is_refused_at_the_commit(engine: Engine) -> None:
    arrays = "ARRAY['s'], ARRAY[0], ARRAY[NULL]::bigint[], ARRAY['k'], ARRAY[0], ARRAY[''::bytea], ARRAY[1]"
    judging = f"SELECT outcomes FROM judge_appends({arrays})"  # noqa: S608 ours
    assert "which no event took" in refusal(engine, judging)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM append_keys WHERE key = 'k'")).scalar() == 0


@pytest.mark.usefixtures("apart")
def test_the_guard_writes_for_no_other_table_than_the_logs(engine: Engine, owner_engine: Engine) -> None:
    forge = """CREATE TEMPORARY TABLE forged (LIKE events);
        CREATE TRIGGER forged AFTER INSERT ON forged REFERENCING NEW TABLE AS inserted
            FOR EACH STATEMENT EXECUTE FUNCTION guard_insert();
        INSERT INTO forged SELECT * FROM events LIMIT 1"""
    assert "permission denied for function guard_insert" in refusal(engine, forge)
    assert "is no table of this log" in refusal(owner_engine, forge)


@pytest.mark.usefixtures("apart")
def test_the_application_may_not_write_another_time_than_now_and_the_owner_none_that_goes_back(
    engine: Engine, owner_engine: Engine
) -> None:
    with owner_engine.connect() as connection:
        last = last_of(connection)
        now = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    for opened, at in (
        (engine, now + timedelta(days=1)),
        (engine, last.at - timedelta(days=1)),
        (owner_engine, last.at - timedelta(days=1)),
    ):
        moved = replace(successor(last), at=at)
        moved = replace(moved, chain=link(last.chain, moved))
        with pytest.raises(DBAPIError, match="times of positions"), opened.begin() as connection:
            insert(connection, "events", moved)
    ahead = replace(successor(last), at=now + timedelta(days=1))
    with owner_engine.connect() as connection:
        insert(connection, "events", replace(ahead, chain=link(last.chain, ahead)))
        connection.rollback()


TAKING_AWAY = (
    "ALTER TABLE events DISABLE TRIGGER ALL",
    "ALTER TABLE events DISABLE TRIGGER guard_insert",
    "ALTER TABLE events_1 DISABLE TRIGGER refuse_change",
    "DROP TRIGGER refuse_change ON stream_versions",
    "DROP TABLE append_keys",
    "ALTER TABLE events DETACH PARTITION events_1",
    "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    "SELECT make_append_only('bookmarks')",
    "CREATE TABLE mine (a integer)",
    "SET session_replication_role = replica",
    "UPDATE blobs SET body = ''",
    "UPDATE blobs SET at = now(), subject = NULL",
    "INSERT INTO blobs (at, size, encoding, address, media_type, body) VALUES (now(), 0, 0, sha256(''), 'a', '')",
    "DELETE FROM blobs",
    "TRUNCATE blobs",
    "SELECT erase_blobs('')",
)


@pytest.mark.usefixtures("apart")
def test_the_application_cannot_take_the_guards_away(engine: Engine) -> None:
    for statement in TAKING_AWAY:
        assert any(word in refusal(engine, statement) for word in ("permission denied", "must be owner")), statement


@pytest.mark.usefixtures("apart")
def test_the_application_is_no_superuser_and_owns_nothing(engine: Engine) -> None:
    with engine.connect() as connection:
        row = connection.execute(
            text("""SELECT rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication,
                (SELECT count(*) FROM pg_class WHERE relowner = r.oid),
                (SELECT count(*) FROM pg_proc WHERE proowner = r.oid),
                (SELECT count(*) FROM pg_auth_members WHERE member = r.oid)
                FROM pg_roles r WHERE rolname = current_user""")
        ).one()
    assert list(row) == [False] * 5 + [0] * 3


def test_a_replicating_session_does_not_get_past_the_guards(owner_engine: Engine) -> None:
    with owner_engine.connect() as connection:
        is_super = connection.execute(text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")).scalar()
        firing = connection.execute(
            text("SELECT tgrelid::regclass::text, tgenabled FROM pg_trigger WHERE tgrelid::regclass::text = ANY(:t)"),
            {"t": list(GUARDED)},
        ).all()
    assert {row.tgrelid for row in firing} == set(GUARDED)
    assert {row.tgenabled for row in firing} == {"A"}
    expected = "is append-only" if is_super else "permission denied"
    for statement in [*statements("events"), *statements("stream_versions"), *statements("append_keys")]:
        assert expected in refusal(owner_engine, f"SET LOCAL session_replication_role = replica; {statement}")


def last_of(connection: Connection) -> Stored:
    (position,) = connection.execute(text("SELECT max(position) FROM events")).one()
    (row,) = PostgresStore(connection.engine).read_stored(after=Position(position - 1), upto=Position(position))
    return row


def insert(connection: Connection, table: str, row: Stored) -> None:
    values = ":position, :stream, :version, :at, :actor, NULL, :type, 1, CAST(:payload AS jsonb), :digest, :chain"
    connection.execute(text(f"INSERT INTO {table} VALUES ({values})"), asdict(row))  # noqa: S608 ours


def successor(row: Stored, *, gap: int = 0, is_linked: bool = True, previous: bytes | None = None) -> Stored:
    """A row that follows another, or does not."""
    position = Position(row.position + 1 + gap)
    content = event_digest("RewriteWon", 1, {}, "raw", None)
    made = Stored(position, "raw", 1, row.at, "raw", None, "RewriteWon", 1, "{}", content, b"")
    chain = link(row.chain if previous is None else previous, made) if is_linked else bytes(32)
    return Stored(position, "raw", 1, row.at, "raw", None, "RewriteWon", 1, "{}", content, chain)


@pytest.mark.parametrize("table", ["events", "events_1"])
def test_a_raw_row_is_refused_unless_it_follows_the_head_and_links_to_it(owner_engine: Engine, table: str) -> None:
    with owner_engine.connect() as connection:
        last = last_of(connection)
    wrong = {
        "do not follow the head": [successor(last, gap=1), successor(last, gap=100)],
        "the chain breaks": [successor(last, is_linked=False), successor(last, previous=GENESIS)],
        "duplicate key": [successor(last, gap=-1)],
    }
    for message, rows in wrong.items():
        for row in rows:
            with pytest.raises(DBAPIError, match=message), owner_engine.begin() as connection:
                insert(connection, table, row)
    with owner_engine.connect() as connection:
        insert(connection, table, successor(last))
        connection.rollback()
    assert PostgresStore(owner_engine).head() == last.position
