"""Append keys that were changed behind the guards are found: by their digests, by their chain, by a signed head."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from api.history.sign import PUBLIC
from api.house import project_engine
from api.settings import read_settings
from eventlog.append_keys import keys_between, link_key
from eventlog.appending import MOST_BY_CALL
from eventlog.errors import BrokenChain
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Position
from eventlog.transfer import export_log
from eventlog.verification import Opening, verify_log
from migrations.migrate import migrate
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_rows, sample
from tests.integration.test_cli import Flywheel, flywheel
from tests.integration.test_log_verification import damaged

__all__ = ["flywheel"]

HEAD = golden_rows()[-1].position
WON = sample("RewriteWon")
KEYS = "append_keys"
NULLED = "ALTER TABLE append_keys ALTER COLUMN chain DROP NOT NULL; UPDATE append_keys SET chain = NULL"


def append(engine: Engine, *sizes: int) -> None:
    """Append requests of these numbers of events, all in one call."""
    start = PostgresStore(engine).head()
    requests = [Append("s", (WON,) * size, "test", key=f"key-{start}-{nth}") for nth, size in enumerate(sizes)]
    assert all(isinstance(outcome, Committed) for outcome in PostgresStore(engine).append(requests))


def opener(engine: Engine) -> Opening:
    @contextmanager
    def opened() -> Iterator[PostgresStore]:
        yield PostgresStore(engine)

    return opened


def verify(engine: Engine, *, after: int = START) -> bytes:
    return verify_log(opener(engine), after=Position(after), upto=PostgresStore(engine).head())


def test_each_way_to_append_continues_one_chain_over_the_keys(empty_engine: Engine) -> None:
    for sizes in ((1,), (3,), (1, 2), (1,) * (MOST_BY_CALL + 1), (MOST_BY_CALL + 5,), (1,)):
        append(empty_engine, *sizes)
    head = PostgresStore(empty_engine).head()
    previous = bytes(32)
    for key in keys_between(empty_engine, 0, head):
        previous = link_key(previous, key)
        assert key.chain == previous
    verify(empty_engine)
    for after in range(0, head, 7):  # wherever a range is cut, also in the middle of an append
        verify(empty_engine, after=after)


def without_chains(owner: Engine) -> None:
    """The log as it was before append keys had a chain."""
    damaged(owner, KEYS, "ALTER TABLE append_keys ALTER COLUMN chain DROP NOT NULL")
    damaged(owner, KEYS, "UPDATE append_keys SET chain = NULL")


def set_chain(owner: Engine, last: int, chain: bytes) -> None:
    damaged(owner, KEYS, f"UPDATE append_keys SET chain = '\\x{chain.hex()}' WHERE last_position = {last}")  # noqa: S608 ours


def as_migration_0009_left_it(owner: Engine) -> None:
    """The keys of two appends after that migration have a chain, which begins at the event before them."""
    without_chains(owner)
    append(owner, 2)
    append(owner, 1)
    previous = golden_rows()[-1].chain
    for key in keys_between(owner, HEAD, HEAD + 3):
        previous = link_key(previous, key)
        set_chain(owner, key.last, previous)


def chains(engine: Engine) -> list[bytes | None]:
    return [key.chain for key in keys_between(engine, 0, PostgresStore(engine).head())]


def test_that_no_key_has_a_chain_any_more_is_damage(engine: Engine, owner_engine: Engine) -> None:
    append(engine, 2)
    verify(engine)
    without_chains(owner_engine)
    with pytest.raises(BrokenChain, match="missing") as caught:
        verify(engine)
    assert caught.value.facts["position"] == 1


def migrate_again(owner: Engine) -> None:
    with owner.begin() as connection:
        connection.execute(text("UPDATE migration SET version_num = '0009'"))
    migrate(owner)


@pytest.mark.parametrize("begin", [without_chains, as_migration_0009_left_it])
def test_migrating_links_every_key_up_in_one_chain_from_the_first_on(
    engine: Engine, owner_engine: Engine, begin: Callable[[Engine], None]
) -> None:
    begin(owner_engine)
    migrate_again(owner_engine)
    assert chains(engine) == [chain for _, chain in linked(engine)]
    append(engine, 1)
    verify(engine)
    with pytest.raises(IntegrityError):
        damaged(owner_engine, KEYS, "UPDATE append_keys SET chain = NULL WHERE first_position = 1")


@pytest.mark.parametrize("begin", [lambda owner: append(owner, 2), as_migration_0009_left_it], ids=["one", "two"])
def test_migrating_mends_no_key_that_was_renamed(
    engine: Engine, owner_engine: Engine, begin: Callable[[Engine], None]
) -> None:
    begin(owner_engine)
    damaged(owner_engine, KEYS, f"UPDATE append_keys SET key = 'another' WHERE first_position = {HEAD + 1}")  # noqa: S608 ours
    migrate_again(owner_engine)
    with pytest.raises(BrokenChain) as caught:
        verify(engine)
    assert caught.value.facts["position"] == HEAD + 1


def test_a_key_that_was_away_during_an_append_cannot_come_back_under_another_name(
    engine: Engine, owner_engine: Engine
) -> None:
    append(engine, 1)
    (key,) = keys_between(engine, HEAD, HEAD + 1)
    damaged(owner_engine, KEYS, f"DELETE FROM append_keys WHERE last_position = {key.last}")  # noqa: S608 ours
    append(engine, 1)
    damaged(
        owner_engine,
        KEYS,
        f"INSERT INTO append_keys VALUES ('another', '\\x{key.digest.hex()}', {key.first}, {key.last}, sha256(''))",  # noqa: S608 ours
    )
    assert key.previous is not None
    set_chain(owner_engine, key.last, link_key(key.previous, replace(key, key="another")))
    for after in (START, key.last):
        with pytest.raises(BrokenChain) as caught:
            verify(engine, after=after)
        assert caught.value.facts["position"] == key.last + 1


@pytest.mark.parametrize(
    ("damage", "position"),
    [
        (f"UPDATE append_keys SET key = 'another' WHERE first_position = {HEAD + 1}", HEAD + 1),  # noqa: S608 ours
        (f"UPDATE append_keys SET key = 'another' WHERE first_position = {HEAD + 3}", HEAD + 3),  # noqa: S608 ours
        (f"UPDATE append_keys SET digest = sha256('') WHERE first_position = {HEAD + 3}", HEAD + 3),  # noqa: S608 ours
        (f"{NULLED} WHERE first_position = {HEAD + 1}", HEAD + 1),
        (f"{NULLED} WHERE first_position = {HEAD + 4}", HEAD + 4),
        (f"UPDATE append_keys SET chain = sha256('') WHERE first_position = {HEAD + 3}", HEAD + 3),  # noqa: S608 ours
        ("UPDATE append_keys SET digest = sha256('') WHERE first_position = 1", 1),
        ("UPDATE append_keys SET key = 'another' WHERE first_position = 1", 1),
    ],
)
def test_a_key_that_was_changed_is_told_by_the_first_position_of_its_append(
    engine: Engine, owner_engine: Engine, damage: str, position: int
) -> None:
    append(engine, 2)
    append(engine, 1, 1)
    damaged(owner_engine, KEYS, damage)
    with pytest.raises(BrokenChain) as caught:
        verify(engine)
    assert caught.value.facts["position"] == position


def linked(engine: Engine) -> Iterator[tuple[Position, bytes]]:
    """The last position of each key, and the chain value that it has when all are linked up from the first one on."""
    previous = bytes(32)
    for key in keys_between(engine, START, PostgresStore(engine).head()):
        previous = link_key(previous, key)
        yield key.last, previous


def relink(engine: Engine) -> None:
    """What the owner could do besides: make the chain fit the keys again, from the first one on."""
    for last, chain in linked(engine):
        set_chain(engine, last, chain)


def test_only_a_signature_tells_of_a_renamed_key_whose_chain_was_made_to_fit(
    flywheel: Flywheel, engine: Engine, owner_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_KEYS", str(tmp_path / "keys"))
    append(engine, 2)
    append(engine, 1)
    head = str(tmp_path / "head.json")
    assert flywheel("log", "sign", "--out", head)[0] == 0
    append(engine, 1)
    assert flywheel("log", "verify", "--signature", head)[0] == 0
    damaged(owner_engine, KEYS, f"UPDATE append_keys SET key = 'another' WHERE first_position = {HEAD + 1}")  # noqa: S608 ours
    relink(owner_engine)
    assert flywheel("log", "verify")[0] == 0
    code, _, err = flywheel("log", "verify", "--signature", head)
    assert code == 1
    assert f"The append keys were rewritten at or before position {HEAD + 3}" in " ".join(err.split())
    assert (tmp_path / "keys" / "default" / PUBLIC).exists()


def as_exported_before_0011(entry: dict[str, Any]) -> dict[str, Any]:
    """A line of an exported log older than the chain over keys: its first keys have none, the others another."""
    if "key" not in entry:
        return entry
    found = {**entry, "chain": "0" * 64}
    if entry["first"] <= HEAD:
        del found["chain"]
    return found


@pytest.mark.parametrize("wrote", [lambda entry: entry, as_exported_before_0011], ids=["present", "older"])
def test_the_chain_over_keys_goes_along_with_an_exported_log(
    engine: Engine,
    empty_database: Database,
    tmp_path: Path,
    flywheel: Flywheel,
    monkeypatch: pytest.MonkeyPatch,
    wrote: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    append(engine, 2)
    append(engine, 1)
    file = tmp_path / "log.ndjson"
    export_log(engine, file)
    lines = [json.dumps(wrote(json.loads(line))) for line in file.read_text().splitlines()]
    file.write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_PROJECT", "elsewhere")
    assert flywheel("log", "import", str(file))[0] == 0
    assert flywheel("log", "verify")[0] == 0
    with project_engine(read_settings()) as elsewhere:
        assert chains(elsewhere) == chains(engine)


def test_a_bookmark_ahead_of_the_head_is_a_difference_that_a_rebuild_mends(
    flywheel: Flywheel, engine: Engine, owner_engine: Engine
) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE builds SET position = position + 3 WHERE projection IN ('rewrites', 'runs')"))
    code, out, _ = flywheel("replay", "--verify", "--projection", "rewrites", "--projection", "runs", "--json")
    assert code == 1
    assert [row["identical"] for row in json.loads(out)] == [False, False]
    assert f"ahead of the log's head {HEAD}" in json.loads(out)[0]["differs"]
    assert flywheel("replay", "--rebuild", "--verify", "--projection", "rewrites", "--projection", "runs")[0] == 0
    append(engine, 1)
    assert flywheel("replay", "--verify", "--projection", "rewrites")[0] == 0
