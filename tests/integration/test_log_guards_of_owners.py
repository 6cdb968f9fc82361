"""Guards against those who own the tables or the server, on every partition, and what is left where they are undone."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, Engine, text

from eventlog.errors import GuardDown
from eventlog.verification import check_guards
from tests.conftest import Database
from tests.integration.test_log_guards import fingerprint, refusal, statements

REPLICA = "SET LOCAL session_replication_role = replica; "
BOUNDS = text("""SELECT c.relname AS name,
        (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''(\\d+)''\\)'))[1] AS start
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'events'::regclass ORDER BY c.oid""")


def partitions(connection: Connection) -> dict[str, int]:
    """Each partition of the log with its first position."""
    return {row.name: int(row.start) for row in connection.execute(BOUNDS)}


@pytest.fixture
def guarded(owner_engine: Engine) -> list[str]:
    """Every table that keeps facts, each with a row in it."""
    with owner_engine.begin() as connection:
        found = partitions(connection)
        for name, start in list(found.items())[1:]:
            connection.execute(text(f"ALTER TABLE {name} DISABLE TRIGGER guard_insert"))
            connection.execute(
                text(f"""INSERT INTO {name} SELECT {start}, 'far/' || {start}, 1, at, actor, cause, type,
                    schema_version, payload, digest, chain FROM events WHERE position = 1""")  # noqa: S608 names of the catalog
            )
            connection.execute(text(f"ALTER TABLE {name} ENABLE ALWAYS TRIGGER guard_insert"))
    check_guards(owner_engine)
    return ["events", *found, "stream_versions", "append_keys"]


def test_the_owner_is_refused_every_change_on_the_log_and_on_each_partition(
    owner_engine: Engine, guarded: list[str]
) -> None:
    before = fingerprint(owner_engine)
    assert len(guarded) > 4
    for table in guarded:
        for statement in statements(table):
            assert "is append-only" in refusal(owner_engine, statement), statement
    assert fingerprint(owner_engine) == before


def test_a_superuser_is_refused_too_also_in_a_session_that_replicates(
    superuser_engine: Engine, guarded: list[str]
) -> None:
    before = fingerprint(superuser_engine)
    for table in guarded:
        for statement in statements(table):
            assert "is append-only" in refusal(superuser_engine, statement), statement
            assert "is append-only" in refusal(superuser_engine, REPLICA + statement), statement
    assert fingerprint(superuser_engine) == before


def test_a_raw_row_is_refused_in_a_session_that_replicates(superuser_engine: Engine) -> None:
    statement = """INSERT INTO {} SELECT position + 5000, stream, version + 5000, at, actor, cause, type,
        schema_version, payload, digest, chain FROM events WHERE position = 1"""
    for table in ("events", "events_1"):
        assert "do not follow the head" in refusal(superuser_engine, REPLICA + statement.format(table))


@pytest.fixture
def apart(database: Database) -> None:
    """The application's role is another than the owner's."""
    if database.app_role is None:
        pytest.skip("this server's application is its owner")


@pytest.mark.usefixtures("apart")
def test_the_application_cannot_touch_a_trigger_of_any_table(engine: Engine, guarded: list[str]) -> None:
    for table in guarded:
        for action in ("DISABLE TRIGGER ALL", "DISABLE TRIGGER USER", "ENABLE REPLICA TRIGGER refuse_change"):
            assert "must be owner" in refusal(engine, f"ALTER TABLE {table} {action}")
        assert "must be owner" in refusal(engine, f"DROP TRIGGER refuse_change ON {table}")
        assert "permission denied" in refusal(engine, f"TRUNCATE {table}")


def test_who_takes_a_guard_away_is_not_refused_but_is_seen(owner_engine: Engine, guarded: list[str]) -> None:
    for table in guarded:
        with owner_engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER refuse_change"))
        with pytest.raises(GuardDown, match=table):
            check_guards(owner_engine)
        with owner_engine.begin() as connection:
            for name in [table, *(partitions(connection) if table == "events" else ())]:
                connection.execute(text(f"ALTER TABLE {name} ENABLE ALWAYS TRIGGER refuse_change"))
        check_guards(owner_engine)
