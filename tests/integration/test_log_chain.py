"""The chain as PostgreSQL keeps it: what SQL links, Python links, and damage behind the guards is found."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from eventlog.chain import GENESIS, link, verify_chain
from eventlog.errors import BrokenChain
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append
from tests.golden.test_golden_samples import sample

WON = sample("RewriteWon")


def test_the_stored_chain_is_what_python_links(owner_engine: Engine) -> None:
    statement = text("""SELECT position, chain,
        chain_link(coalesce(lag(chain) OVER (ORDER BY position), decode(repeat('00', 32), 'hex')),
                   position, stream, version, at, digest) AS link FROM events ORDER BY position""")
    with owner_engine.connect() as connection:
        of_sql = {row.position: (bytes(row.chain), bytes(row.link)) for row in connection.execute(statement)}
    previous = GENESIS
    for row in PostgresStore(owner_engine).read_stored():
        previous = link(previous, row)
        assert of_sql[row.position] == (previous, previous)


@pytest.mark.parametrize("stream", ["é\U0001f600\n'\"\\", "a" * 1000])
def test_the_chain_of_any_stream_name_is_the_same_in_sql_and_in_python(empty_engine: Engine, stream: str) -> None:
    store = PostgresStore(empty_engine)
    store.append([Append(stream, (WON,), "é'\\"), Append(stream, (WON,), "b")])
    assert len(list(verify_chain(store.read_stored(), after=START, previous=GENESIS))) == 2


@pytest.mark.parametrize(
    ("damage", "position"),
    [
        ('UPDATE events SET payload = payload || \'{"run": "another"}\' WHERE position = 100', 100),
        ("UPDATE events SET payload = payload || '{\"run\": 1.5}' WHERE position = 100", 100),
        ("UPDATE events SET actor = 'another' WHERE position = 100", 100),
        ("UPDATE events SET stream = 'another' WHERE position = 100", 100),
        ("UPDATE events SET cause = 3 WHERE position = 100", 100),
        ("UPDATE events SET at = at + interval '1 microsecond' WHERE position = 100", 100),
        ("DELETE FROM events WHERE position = 100", 100),
        ("UPDATE events SET chain = decode(repeat('00', 32), 'hex') WHERE position = 652", 652),
    ],
)
def test_damage_done_behind_the_guards_is_found_by_position(owner_engine: Engine, damage: str, position: int) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("ALTER TABLE events DISABLE TRIGGER ALL"))
        connection.execute(text(damage))
    with pytest.raises(BrokenChain) as caught:
        list(verify_chain(PostgresStore(owner_engine).read_stored(), after=START, previous=GENESIS))
    assert caught.value.facts["position"] == position
