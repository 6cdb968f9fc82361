"""`flywheel blobs`, and where blobs are kept: list, verify, sweep, and what each says of damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from api.house import blobs_of
from api.settings import Settings
from eventlog.blobs import Blob, Inventory, PostgresBlobs
from eventlog.blobs.conversations import put_messages
from eventlog.blobs.inventory import survey, sweep, verify
from eventlog.blobs.objects import open_objects
from eventlog.errors import BlobDamaged, BlobErased, BytesRemain, ObjectStoreUnusable, OwnerNeeded
from eventlog.keys import FolderKeys, MemoryKeys
from eventlog.postgres import PostgresStore
from eventlog.references import NAMING, mentions
from eventlog.store import Append
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_log, sample
from tests.integration.test_cli import Flywheel, flywheel, shown

__all__ = ["flywheel"]

NAMED = 123
DAY = timedelta(days=1)
PAGE = Blob("text/plain", b"nobody names me")


@pytest.fixture
def blobs(engine: Engine, database: Database) -> Inventory:
    """The application's blobs beside the golden log."""
    return PostgresBlobs(engine, FolderKeys(database.keys / "default"))


def age(owner: Engine, *, hours: int = 48) -> None:
    with owner.begin() as connection:
        connection.execute(text("UPDATE blobs SET at = at - make_interval(hours => :n)"), {"n": hours})


def damage(owner: Engine, address: str) -> None:
    with owner.begin() as connection:
        statement = text("UPDATE blobs SET body = set_byte(body, 5, 255 - get_byte(body, 5)) WHERE address = :a")
        connection.execute(statement, {"a": bytes.fromhex(address)})


def name_in_log(engine: Engine, address: str) -> None:
    PostgresStore(engine).append(
        [Append("run/x", (sample("StepTaken", run="x", observation=address, argument=None),), "test")]
    )


@pytest.mark.reads
def test_a_list_counts_what_the_log_refers_to(flywheel: Flywheel) -> None:
    rows = shown(flywheel, "blobs", "list", "--limit", "1000", "--references")
    named = mentions(event for event in golden_log() if event.event.type in NAMING)
    assert {row["address"]: row["references"] for row in rows} == {
        address: mention.count for address, mention in named.items()
    }
    assert all(row["bytes"] >= row["stored"] > 0 for row in rows)
    assert shown(flywheel, "blobs", "list", "--orphans") == []


@pytest.mark.reads
def test_a_list_goes_on_where_it_stopped(flywheel: Flywheel) -> None:
    every = [row["address"] for row in shown(flywheel, "blobs", "list", "--limit", "1000")]
    assert len(every) == NAMED
    assert [row["address"] for row in shown(flywheel, "blobs", "list", "--limit", "9", "--after", every[99])] == (
        every[100:109]
    )
    for counting in ((), ("--references",)):
        code, _, err = flywheel("blobs", "list", "--limit", "3", *counting)
        assert code == 0
        assert f"There are more; continue with --after {every[2]}" in " ".join(err.split())


def test_only_what_nothing_names_and_is_old_is_swept(
    flywheel: Flywheel, blobs: Inventory, engine: Engine, owner_engine: Engine
) -> None:
    kept = put_messages(blobs, [{"role": "user", "content": str(n)} for n in range(5)])
    name_in_log(engine, kept)
    put_messages(blobs, [{"role": "user", "content": str(n)} for n in (0, 1, 7, 8)])
    blobs.put([PAGE])
    assert len(shown(flywheel, "blobs", "list", "--orphans")) == 3
    assert shown(flywheel, "blobs", "sweep", "--yes") == {"removed": 0}
    age(owner_engine)
    blobs.put([PAGE])
    assert shown(flywheel, "blobs", "sweep", "--yes", "--older-than", "7d") == {"removed": 0}
    assert shown(flywheel, "blobs", "sweep", "--yes") == {"removed": 2}
    assert blobs.get(PAGE.digest) == PAGE
    assert len(blobs.digests()) == NAMED + 5 + 1
    assert shown(flywheel, "blobs", "verify")["missing"] == {}


def test_what_a_missing_key_hides_is_not_swept(engine: Engine, owner_engine: Engine) -> None:
    put_messages(PostgresBlobs(engine, MemoryKeys()), [{"a": 1}, {"a": 2}], subject="person-1")
    PostgresBlobs(engine, MemoryKeys()).put([PAGE], subject="person-2")
    age(owner_engine)
    assert sweep(PostgresStore(engine), PostgresBlobs(owner_engine, MemoryKeys()), DAY) == 1
    assert len(PostgresBlobs(engine).digests()) == NAMED + 2


@pytest.mark.reads
@pytest.mark.parametrize("age", ["0h", "59m", "-1d", "soon", "24", "", "1h30m"])
def test_an_age_that_could_take_a_blob_before_its_event_is_refused(flywheel: Flywheel, age: str) -> None:
    code, _, err = flywheel("blobs", "sweep", "--yes", "--older-than", age)
    assert code == 64
    assert "90m, 24h or 7d" in err


def test_whole_blobs_verify(flywheel: Flywheel, blobs: Inventory) -> None:
    blobs.put([PAGE], subject="person-1")
    code, out, _ = flywheel("blobs", "verify")
    assert (code, out.strip()) == (0, f"{NAMED + 1} blobs, 0 erased, 0 damaged, 0 missing")


def test_damaged_and_missing_blobs_are_listed_with_what_names_them(
    flywheel: Flywheel, engine: Engine, owner_engine: Engine, blobs: Inventory
) -> None:
    victim, other = sorted(blobs.digests())[:2]
    damage(owner_engine, victim)
    with owner_engine.begin() as connection:
        connection.execute(text("DELETE FROM blobs WHERE address = :a"), {"a": bytes.fromhex(other)})
    address = put_messages(blobs, [{"a": 1}, {"a": 2}])
    name_in_log(engine, address)
    name_in_log(engine, "0" * 64)
    code, out, _ = flywheel("blobs", "verify", "--json")
    found = json.loads(out)
    assert code == 1
    assert set(found["damaged"]) == {victim}
    assert set(found["missing"]) == {other, "0" * 64}
    assert found["missing"]["0" * 64].startswith("StepTaken at position")
    code, out, _ = flywheel("blobs", "verify")
    assert code == 1
    assert victim in out
    assert "referred to by StepTaken" in out


def test_a_conversation_without_its_beginning_is_missing_a_blob(engine: Engine, blobs: Inventory) -> None:
    address = put_messages(blobs, [{"a": 1}, {"a": 2}])
    child = next(blobs.read_envelopes([address]))
    other = open_objects("memory://", MemoryKeys())
    other.keep([child])
    found = verify(PostgresStore(engine), other)
    assert list(found.missing.values()).count(f"the message {address}") == 1
    assert survey(PostgresStore(engine), other).orphans()[0].address == address


def test_a_sweep_stops_at_a_message_that_it_cannot_read(engine: Engine, owner_engine: Engine) -> None:
    blobs = PostgresBlobs(owner_engine)
    damage(owner_engine, put_messages(blobs, [{"a": 1}, {"a": 2}]))
    age(owner_engine)
    with pytest.raises(BlobDamaged):
        sweep(PostgresStore(engine), blobs, DAY)
    assert len(blobs.digests()) == NAMED + 2


def test_the_application_destroys_a_key_and_leaves_the_bytes_to_the_owner(
    engine: Engine, owner_engine: Engine, database: Database
) -> None:
    if database.app_role is None:
        pytest.skip("this server's application is its owner")
    keys = FolderKeys(database.keys / "default")
    ours, owned = PostgresBlobs(engine, keys), PostgresBlobs(owner_engine, keys)
    (address,) = ours.put([PAGE], subject="person-1")
    with pytest.raises(BytesRemain, match="FLYWHEEL_OWNER_URL"):
        ours.erase("person-1")
    with pytest.raises(BlobErased):
        ours.get(address)
    assert next(ours.read_envelopes([address])).body is not None
    assert owned.erase("person-1") == 1
    assert next(ours.read_envelopes([address])).body is None
    with pytest.raises(OwnerNeeded):
        ours.remove([PAGE.digest], older_than=DAY)


def test_blobs_may_be_kept_in_a_folder(flywheel: Flywheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_BLOBS", f"file://{tmp_path}/blobs")
    code, out, _ = flywheel("blobs", "verify", "--json")
    found = json.loads(out)
    assert (code, found["verified"], len(found["missing"])) == (1, 0, NAMED)
    assert flywheel("blobs", "list")[1].strip() == "no blobs yet"
    assert (tmp_path / "blobs" / "default").is_dir()


def test_a_log_with_blobs_in_a_folder_goes_over_into_a_database_and_back(
    flywheel: Flywheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clone: Callable[[str], Database]
) -> None:
    file, again = str(tmp_path / "log.ndjson.gz"), str(tmp_path / "again.ndjson")
    assert flywheel("log", "export", file)[0] == 0
    other = clone("empty")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", other.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", other.owner_url)
    monkeypatch.setenv("FLYWHEEL_BLOBS", f"file://{tmp_path}/blobs")
    assert flywheel("log", "import", file)[0] == 0
    assert flywheel("blobs", "verify", "--json")[0] == 0
    assert flywheel("log", "export", again)[0] == 0
    assert Path(again).read_text().count('{"blob":') == NAMED
    monkeypatch.delenv("FLYWHEEL_BLOBS")
    assert shown(flywheel, "blobs", "list") == []


@pytest.mark.reads
@pytest.mark.parametrize("url", ["nowhere", "http://x/y", "s3://", "file:relative", "file:///proc/none/x"])
def test_a_place_that_is_none_is_one_sentence(flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("FLYWHEEL_BLOBS", url)
    code, _, err = flywheel("blobs", "list")
    assert code == 1
    assert "FLYWHEEL_BLOBS" in err
    assert "Traceback" not in err


def test_an_object_store_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    unreachable = blobs_of(Settings(blobs="s3://bucket"), engine)
    with pytest.raises(ObjectStoreUnusable, match="s3://bucket/default"):
        unreachable.get("0" * 64)


def test_each_project_has_keys_of_its_own_in_its_home(tmp_path: Path) -> None:
    assert Settings(home=tmp_path, project="mine").key_folder == tmp_path / "keys" / "mine"
    assert Settings(home=tmp_path, keys=tmp_path / "elsewhere").key_folder == tmp_path / "elsewhere" / "default"


def test_projects_that_share_a_place_for_keys_erase_each_for_itself(
    flywheel: Flywheel, database: Database, blobs: Inventory
) -> None:
    (address,) = blobs.put([PAGE], subject="person-1")
    elsewhere = Settings(project="other", keys=database.keys)
    FolderKeys(elsewhere.key_folder).destroy("person-1")
    assert blobs.get(address) == PAGE
    assert flywheel("blobs", "verify")[0] == 0


@pytest.mark.reads
@pytest.mark.parametrize("after", ["zz", "0" * 63, "A" * 64, " "])
def test_a_list_does_not_go_on_after_what_is_no_address(flywheel: Flywheel, after: str) -> None:
    code, out, err = flywheel("blobs", "list", "--after", after)
    assert (code, out) == (64, "")
    assert "64 lower-case hexadecimal digits" in err
