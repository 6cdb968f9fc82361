"""Stream versions by blocks: what the guard takes in one statement, what it refuses, and how blocks are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from eventlog.chain import event_digest, link
from eventlog.postgres import PostgresStore
from eventlog.store import START, Position, Stored
from tests.golden.test_golden_samples import golden_rows

from .test_log_guards import last_of

COLUMNS = ("position", "stream", "version", "at", "actor", "type", "payload", "digest", "chain")
DIGEST = event_digest("RewriteWon", 1, {}, "raw", None)
Placed = Sequence[tuple[str, int]]


def following(last: Stored, places: Placed) -> list[Stored]:
    """Rows at these streams and versions that follow a row and link up."""
    found, previous = [], last
    for stream, version in places:
        position = Position(previous.position + 1)
        made = Stored(position, stream, version, last.at, "raw", None, "RewriteWon", 1, "{}", DIGEST, b"")
        previous = replace(made, chain=link(previous.chain, made))
        found.append(previous)
    return found


def relinked(last: Stored, rows: Sequence[Stored]) -> list[Stored]:
    found, previous = [], last.chain
    for row in rows:
        previous = link(previous, row)
        found.append(replace(row, chain=previous))
    return found


def insert(connection: Connection, rows: Sequence[Stored]) -> None:
    """All the rows in one statement."""
    values = {f"{name}_{n}": asdict(row)[name] for n, row in enumerate(rows) for name in COLUMNS}
    listed = ", ".join(
        f"(:position_{n}, :stream_{n}, :version_{n}, :at_{n}, :actor_{n}, NULL, :type_{n}, 1,"
        f" CAST(:payload_{n} AS jsonb), :digest_{n}, :chain_{n})"
        for n in range(len(rows))
    )
    connection.execute(text(f"INSERT INTO events VALUES {listed}"), values)  # noqa: S608 ours


@pytest.mark.parametrize(
    ("places", "blocks"),
    [
        ([("a", 1)], [("a", 1, 1, 1)]),
        ([("a", 1), ("a", 2), ("a", 3)], [("a", 3, 3, 3)]),
        ([("a", 1), ("a", 2), ("b", 1), ("a", 3)], [("a", 2, 2, 2), ("b", 1, 3, 1), ("a", 3, 4, 1)]),
        ([("a", 1), ("b", 1), ("a", 2), ("b", 2)], [("a", 1, 1, 1), ("b", 1, 2, 1), ("a", 2, 3, 1), ("b", 2, 4, 1)]),
    ],
)
def test_consecutive_events_of_a_stream_are_one_block(
    engine: Engine, places: Placed, blocks: list[tuple[str, int, int, int]]
) -> None:
    with engine.connect() as connection:
        last = last_of(connection)
        insert(connection, following(last, places))
        found = connection.execute(
            text("""SELECT stream, version, position - :last, events FROM stream_versions
                WHERE position > :last ORDER BY position"""),
            {"last": last.position},
        )
        assert [tuple(row) for row in found] == blocks


@pytest.mark.parametrize(
    "places",
    [
        [("a", 2)],
        [("a", 1), ("a", 3)],
        [("a", 2), ("a", 3)],
        [("a", 0), ("a", 1)],
        [("a", 1), ("a", 2), ("a", 2)],
        [("a", 1), ("a", 2), ("a", 3), ("a", 2), ("a", 5)],
        [("b", 1), ("a", 2), ("a", 1)],
        [("a", 1), ("b", 1), ("a", 3), ("b", 2), ("a", 2)],
    ],
)
def test_versions_that_do_not_follow_are_refused_in_a_statement_of_several(
    engine: Engine, owner_engine: Engine, places: Placed
) -> None:
    for opened in (engine, owner_engine):
        with opened.connect() as connection:
            rows = following(last_of(connection), places)
            with pytest.raises(DBAPIError, match=r"versions of stream a do not follow|duplicate key"):
                insert(connection, rows)


def test_a_block_of_a_stream_begins_where_its_last_one_ended(engine: Engine) -> None:
    with engine.connect() as connection:
        first = following(last_of(connection), [("a", 1), ("a", 2), ("a", 3)])
        insert(connection, first)
        for version in (1, 2, 3, 5):
            with pytest.raises(DBAPIError, match=r"versions of stream a|duplicate key"), connection.begin_nested():
                insert(connection, following(first[-1], [("a", version), ("b", 1)]))
        insert(connection, following(first[-1], [("a", 4), ("b", 1)]))


def test_rows_that_break_the_order_the_chain_or_the_time_are_refused_wherever_they_stand(owner_engine: Engine) -> None:
    with owner_engine.connect() as connection:
        last = last_of(connection)
    rows = following(last, [("a", 1), ("a", 2), ("a", 3), ("a", 4)])
    late = [replace(row, at=row.at + timedelta(seconds=shift)) for row, shift in zip(rows, (1, 2, 1, 2), strict=True)]
    for message, wrong in {
        "order of positions": [rows[0], rows[2], rows[1], rows[3]],
        "the chain breaks at position 655": [*rows[:2], replace(rows[2], chain=bytes(32)), rows[3]],
        "the chain breaks at position 653": [replace(rows[0], digest=bytes(32)), *rows[1:]],
        "times of positions 653 to 656": relinked(last, late),
        "positions 653 to 656 do not follow": [*rows[:2], rows[3]],
    }.items():
        with pytest.raises(DBAPIError, match=message), owner_engine.begin() as connection:
            insert(connection, wrong)
    with owner_engine.connect() as connection:
        insert(connection, relinked(last, [replace(row, at=row.at + timedelta(seconds=row.version)) for row in rows]))


def test_a_request_without_events_leaves_no_key(engine: Engine) -> None:
    kinds = ", ".join(f"CAST(:listed AS {kind}[])" for kind in ("text", "integer", "text", "bytea"))
    asked = text(f"SELECT * FROM append_request('s', NULL, 'k', '', 'a', NULL, {kinds})")  # noqa: S608 ours
    count = text("SELECT count(*) FROM append_keys WHERE key = 'k'")
    with engine.connect() as connection:
        connection.execute(asked, {"listed": "{}"})
        assert connection.execute(count).scalar() == 0
        for listed in (None, "{NULL}", "{NULL, NULL}"):
            with pytest.raises(DBAPIError, match="null value"), connection.begin_nested():
                connection.execute(asked, {"listed": listed})
        assert connection.execute(count).scalar() == 0


def test_a_range_of_a_stream_may_begin_and_end_inside_a_block(engine: Engine) -> None:
    with engine.connect() as connection:
        row = connection.execute(
            text("SELECT stream, position, events FROM stream_versions ORDER BY events DESC, position LIMIT 1")
        ).one()
    assert row.events > 3
    store, of_stream = PostgresStore(engine), [each.position for each in golden_rows() if each.stream == row.stream]
    for after in (START, row.position - row.events, row.position - 2, row.position):
        for upto in (row.position - row.events + 1, row.position - 1, row.position, golden_rows()[-1].position):
            found = store.read(stream=row.stream, after=Position(after), upto=Position(upto))
            assert [each.position for each in found] == [place for place in of_stream if after < place <= upto]
