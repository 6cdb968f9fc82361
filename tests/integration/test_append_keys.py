"""Append keys that were changed behind the guards are found: by their digests, by their chain, by a signed head."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from api.history.sign import PUBLIC
from eventlog.append_keys import covered_from, keys_between, link_key
from eventlog.appending import MOST_BY_CALL
from eventlog.errors import BrokenChain
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Position
from eventlog.transfer import export_log
from eventlog.verification import Opening, verify_log
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_rows, sample
from tests.integration.test_cli import Flywheel, flywheel
from tests.integration.test_log_verification import damaged

__all__ = ["flywheel"]

HEAD = golden_rows()[-1].position
WON = sample("RewriteWon")
KEYS = "append_keys"


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
    assert covered_from(empty_engine) == 1
    for after in range(0, head, 7):  # wherever a range is cut, also in the middle of an append
        verify(empty_engine, after=after)


def test_a_log_from_before_the_chain_verifies_and_is_covered_from_the_next_append_on(engine: Engine) -> None:
    verify(engine)
    assert covered_from(engine) is None
    append(engine, 2)
    append(engine, 1)
    verify(engine)
    assert covered_from(engine) == HEAD + 1


@pytest.mark.parametrize(
    ("damage", "position"),
    [
        (f"UPDATE append_keys SET key = 'another' WHERE first_position = {HEAD + 1}", HEAD + 1),  # noqa: S608 ours
        (f"UPDATE append_keys SET key = 'another' WHERE first_position = {HEAD + 3}", HEAD + 3),  # noqa: S608 ours
        (f"UPDATE append_keys SET digest = sha256('') WHERE first_position = {HEAD + 3}", HEAD + 3),  # noqa: S608 ours
        (f"UPDATE append_keys SET chain = NULL WHERE first_position = {HEAD + 1}", HEAD + 3),  # noqa: S608 ours
        (f"UPDATE append_keys SET chain = NULL WHERE first_position = {HEAD + 4}", HEAD + 4),  # noqa: S608 ours
        (f"UPDATE append_keys SET chain = sha256('') WHERE first_position = {HEAD + 3}", HEAD + 3),  # noqa: S608 ours
        ("UPDATE append_keys SET digest = sha256('') WHERE first_position = 1", 1),
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


def relink(engine: Engine) -> None:
    """What the owner could do besides: make the chain fit the keys again, from the first one on."""
    previous = golden_rows()[-1].chain
    for key in keys_between(engine, HEAD, PostgresStore(engine).head()):
        previous = link_key(previous, replace(key, previous=previous))
        damaged(engine, KEYS, f"UPDATE append_keys SET chain = '\\x{previous.hex()}' WHERE last_position = {key.last}")  # noqa: S608 ours


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
    code, out, _ = flywheel("log", "verify")
    assert code == 0
    assert f"The names of append keys are in the chain from position {HEAD + 1} on" in " ".join(out.split())
    code, _, err = flywheel("log", "verify", "--signature", head)
    assert code == 1
    assert f"The append keys were rewritten at or before position {HEAD + 3}" in " ".join(err.split())
    assert (tmp_path / "keys" / "default" / PUBLIC).exists()


def test_the_chain_over_keys_goes_along_with_an_exported_log(
    engine: Engine, empty_database: Database, tmp_path: Path, flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(engine, 2)
    append(engine, 1)
    export_log(engine, tmp_path / "log.ndjson")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_PROJECT", "elsewhere")
    assert flywheel("log", "import", str(tmp_path / "log.ndjson"))[0] == 0
    code, out, _ = flywheel("log", "verify", "--json")
    assert (code, json.loads(out)["keys_from"]) == (0, HEAD + 1)


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
