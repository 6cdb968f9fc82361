"""A signed head against whoever holds the database: cut off, rewritten with a chain that links up, or another's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from api.history.sign import LAST, PRIVATE, PUBLIC, private_key
from eventlog.chain import GENESIS, event_digest, link, verify_chain
from eventlog.postgres import PostgresStore
from eventlog.signature import Signed, key_fingerprint
from eventlog.store import START, Append, Committed
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_rows, sample
from tests.integration.test_cli import Flywheel, flywheel
from tests.integration.test_log_verification import damaged

__all__ = ["flywheel"]

HEAD = len(golden_rows())


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of keys of this test's own."""
    monkeypatch.setenv("FLYWHEEL_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys" / "default"


@pytest.fixture
def signed(flywheel: Flywheel, keys: Path, tmp_path: Path) -> Path:
    """The head of the golden log, signed."""
    file = tmp_path / "head.json"
    code, _, err = flywheel("log", "sign", "--out", str(file))
    assert code == 0, err
    return file


def appended(engine: Engine, amount: int = 1) -> None:
    for _ in range(amount):
        (outcome,) = PostgresStore(engine).append([Append("s", (sample("RewriteWon"),), "test")])
        assert isinstance(outcome, Committed)


def cut_off(engine: Engine, last: int) -> None:
    """Take away everything after a position, from all three tables."""
    beyond = f"position - {last}"
    damaged(
        engine,
        "stream_versions",
        f"UPDATE stream_versions SET position = {last}, version = version - ({beyond}), events = events - ({beyond})"  # noqa: S608 ours
        f" WHERE position > {last} AND position - events < {last}",
    )
    for table, column in (("events", "position"), ("stream_versions", "position"), ("append_keys", "last_position")):
        damaged(engine, table, f"DELETE FROM {table} WHERE {column} > {last}")  # noqa: S608 ours


def rewritten(engine: Engine, position: int) -> None:
    """Say something else at a position, with a digest that fits and a chain that links up from there to the head."""
    previous = GENESIS
    changed = []
    for row in PostgresStore(engine).read_stored():
        made = row
        if row.position == position:
            digest = event_digest(row.type, row.schema_version, json.loads(row.payload), "another", row.cause)
            made = replace(row, actor="another", digest=digest)
        previous = link(previous, made)
        made = replace(made, chain=previous)
        if made != row:
            changed.append({"p": row.position, "a": made.actor, "d": made.digest, "c": made.chain})
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE events DISABLE TRIGGER USER"))
        connection.execute(text("UPDATE events SET actor = :a, digest = :d, chain = :c WHERE position = :p"), changed)
    damaged(engine, "events", "SELECT 1")


def test_a_signed_head_stands_and_goes_on_standing_while_the_log_grows(
    flywheel: Flywheel, signed: Path, engine: Engine
) -> None:
    appended(engine, 3)
    code, out, _ = flywheel("log", "verify", "--signature", str(signed))
    assert code == 0
    assert f"{HEAD + 3} events verify" in out
    assert f"still stands at position {HEAD}" in out
    code, out, _ = flywheel("log", "verify", "--signature", str(signed), "--json")
    assert json.loads(out)["signature"]["position"] == HEAD


def test_the_statement_is_one_json_object_of_the_head_and_the_key_is_shown_by_its_fingerprint(
    flywheel: Flywheel, keys: Path
) -> None:
    code, out, err = flywheel("log", "sign")
    assert code == 0
    statement = Signed.model_validate_json(out)
    assert (statement.position, statement.chain) == (HEAD, golden_rows()[-1].chain.hex())
    assert key_fingerprint(bytes.fromhex(statement.public_key)) in "".join(err.split())
    assert (keys / PRIVATE).stat().st_mode & 0o777 == 0o600
    assert keys.stat().st_mode & 0o777 == 0o700
    assert json.loads((keys / LAST).read_text()) == json.loads(out)


def told(flywheel: Flywheel, *words: str) -> str:
    """What the one sentence of a failing command says."""
    code, out, err = flywheel(*words)
    assert (code, out) == (1, "")
    return " ".join(err.split())


def test_a_log_that_was_cut_off_everywhere_verifies_and_only_the_signature_tells(
    flywheel: Flywheel, signed: Path, superuser_engine: Engine
) -> None:
    last = next(row.position for row in reversed(golden_rows()[:-1]) if row.stream != golden_rows()[-1].stream)
    cut_off(superuser_engine, last)
    assert flywheel("log", "verify")[0] == 0
    said = told(flywheel, "log", "verify", "--signature", str(signed))
    assert f"The log ends at position {last}, but position {HEAD} was signed" in said


@pytest.mark.parametrize("position", [2, 100, HEAD])
def test_a_superuser_who_rewrites_with_a_chain_that_links_up_is_caught_by_the_signature(
    flywheel: Flywheel, signed: Path, superuser_engine: Engine, position: int
) -> None:
    rewritten(superuser_engine, position)
    assert len(list(verify_chain(PostgresStore(superuser_engine).read_stored(), after=START, previous=GENESIS))) == HEAD
    assert flywheel("log", "verify")[0] == 0
    said = told(flywheel, "log", "verify", "--signature", str(signed))
    assert f"The log was rewritten at or before position {HEAD}" in said


def test_a_log_that_is_another_from_its_first_event_on_is_foreign(
    flywheel: Flywheel, signed: Path, superuser_engine: Engine
) -> None:
    rewritten(superuser_engine, 1)
    assert "rewritten from its first event" in told(flywheel, "log", "verify", "--signature", str(signed))


def test_what_another_project_signed_is_foreign_even_for_the_same_log(
    flywheel: Flywheel, signed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    exported = signed.with_name("log.ndjson")
    assert flywheel("log", "export", str(exported))[0] == 0
    monkeypatch.setenv("FLYWHEEL_PROJECT", "other")
    assert flywheel("log", "import", str(exported))[0] == 0
    key = str(tmp_path / "keys" / "default" / PUBLIC)
    said = told(flywheel, "log", "verify", "--signature", str(signed), "--public-key", key)
    assert "the log of the project 'other': expected that of 'default'" in said


def test_what_another_key_signed_is_not_trusted_until_that_key_is_named(
    flywheel: Flywheel, signed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = tmp_path / "keys" / "default" / PUBLIC
    monkeypatch.setenv("FLYWHEEL_KEYS", str(tmp_path / "others"))
    assert "no public key at" in told(flywheel, "log", "verify", "--signature", str(signed))
    assert flywheel("log", "sign")[0] == 0
    said = told(flywheel, "log", "verify", "--signature", str(signed))
    assert "is signed with the key SHA256:" in said
    assert "--public-key" in said
    assert flywheel("log", "verify", "--signature", str(signed), "--public-key", str(first))[0] == 0


def test_a_statement_that_was_altered_is_not_what_was_signed(flywheel: Flywheel, signed: Path) -> None:
    statement = json.loads(signed.read_text())
    signed.write_text(json.dumps({**statement, "position": 652, "at": "2020-01-01T00:00:00+00:00"}))
    assert "was altered" in told(flywheel, "log", "verify", "--signature", str(signed))


@pytest.mark.parametrize("content", ["", "{}", "[1]", "\x00", '{"format": "flywheel-signature-9"}'])
def test_a_file_that_is_no_statement_is_named(flywheel: Flywheel, signed: Path, content: str) -> None:
    signed.write_text(content)
    assert f"The file {signed} is not a signed head" in told(flywheel, "log", "verify", "--signature", str(signed))


@pytest.mark.parametrize("content", ["", "not a key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_a_file_that_is_no_key_is_named(flywheel: Flywheel, signed: Path, tmp_path: Path, content: str) -> None:
    file = tmp_path / "key.pem"
    file.write_text(content)
    said = told(flywheel, "log", "verify", "--signature", str(signed), "--public-key", str(file))
    assert f"The file {file} holds no Ed25519 key" in said
    (tmp_path / "keys" / "default" / PRIVATE).write_text(content)
    assert "holds no Ed25519 key" in told(flywheel, "log", "sign")


def test_signing_again_extends_what_was_signed_last(flywheel: Flywheel, signed: Path, engine: Engine) -> None:
    assert flywheel("log", "sign")[0] == 0
    appended(engine, 2)
    code, out, _ = flywheel("log", "sign", "--workers", "1")
    assert code == 0
    assert json.loads(out)["position"] == HEAD + 2
    assert flywheel("log", "verify", "--signature", str(signed))[0] == 0


UNSIGNABLE: list[tuple[Callable[[Engine], None], str]] = [
    (lambda engine: cut_off(engine, 600), "The log ends at position 601"),
    (lambda engine: rewritten(engine, 300), "The log was rewritten at or before"),
    (lambda engine: rewritten(engine, 1), "another log"),
]


@pytest.mark.parametrize(("damage", "said"), UNSIGNABLE, ids=["cut off", "rewritten", "another"])
def test_a_log_that_does_not_extend_what_was_signed_last_is_not_signed(
    flywheel: Flywheel,
    signed: Path,
    superuser_engine: Engine,
    keys: Path,
    damage: Callable[[Engine], None],
    said: str,
) -> None:
    before = (keys / LAST).read_bytes(), signed.read_bytes()
    damage(superuser_engine)
    appended(superuser_engine)
    assert said in told(flywheel, "log", "sign", "--out", str(signed))
    assert ((keys / LAST).read_bytes(), signed.read_bytes()) == before


def test_what_came_since_the_last_signature_is_verified_before_it_is_signed(
    flywheel: Flywheel, signed: Path, superuser_engine: Engine
) -> None:
    appended(superuser_engine, 3)
    damaged(superuser_engine, "events", "UPDATE events SET actor = 'another' WHERE position = 654")
    assert f"damaged at position {HEAD + 2}" in told(flywheel, "log", "sign")


def test_an_empty_log_is_not_signed(
    flywheel: Flywheel, empty_database: Database, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    assert "The log is empty" in told(flywheel, "log", "sign")
    assert not keys.exists()
    assert flywheel("log", "verify")[0] == 0


def test_of_two_keys_made_at_once_the_first_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = private_key(tmp_path)
    really = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.name != PRIVATE and really(path))
    second = private_key(tmp_path)
    assert first.private_bytes_raw() == second.private_bytes_raw()
    assert {file.name for file in tmp_path.iterdir()} == {PRIVATE, PUBLIC}


USAGE = [
    ("--public-key", str(Path(__file__))),
    ("--from", "0"),
    ("--from", "9", "--to", "8"),
    ("--workers", "0"),
    ("--signature", "no-such-file"),
]


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_a_usage_error_of_verify_is_exit_code_64(flywheel: Flywheel, words: tuple[str, ...]) -> None:
    code, _, err = flywheel("log", "verify", *words)
    assert code == 64
    assert "Try: flywheel" in err


def test_a_range_beyond_the_head_is_named(flywheel: Flywheel) -> None:
    assert "the log ends at 652" in told(flywheel, "log", "verify", "--to", "9999")
    assert "the log ends at 652" in told(flywheel, "log", "verify", "--from", "700")


def test_a_range_verifies_to_the_chain_of_its_end(flywheel: Flywheel) -> None:
    code, out, _ = flywheel("log", "verify", "--from", "100", "--to", "200", "--workers", "2", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["verified"], found["from"], found["to"]) == (101, 100, 200)
    assert found["chain"] == golden_rows()[199].chain.hex()


def test_damage_ends_verify_with_one_sentence(flywheel: Flywheel, owner_engine: Engine) -> None:
    damaged(owner_engine, "stream_versions", "INSERT INTO stream_versions VALUES ('another', 1, 100)")
    assert "damaged at position 100" in told(flywheel, "log", "verify", "--workers", "2")
