"""A log to a file and back: nothing is lost, and what is damaged is refused whole."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from eventlog.blobs import Blob, PostgresBlobs
from eventlog.chain import GENESIS, verify_chain
from eventlog.database import open_engine
from eventlog.errors import BlobDamaged, BlobErased, BrokenChain, FlywheelError, LogNotEmpty, NotALog
from eventlog.keys import MemoryKeys
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Position, Repeated
from eventlog.transfer import FORMAT, PLAIN_BLOBS, events_in, export_log, import_log
from projections import ALL
from projections.engine.projection import digest_changes
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews
from tests.conftest import GOLDEN, Database
from tests.golden.test_golden_releases import log_of
from tests.golden.test_golden_samples import golden_rows, sample

Entries = list[dict[str, Any]]
END = len(golden_rows())


@pytest.fixture
def target(empty_database: Database) -> Iterator[Engine]:
    """The owner's engine on an empty log."""
    opened = open_engine(empty_database.owner_url)
    yield opened
    opened.dispose()


@pytest.fixture(scope="module")
def entries() -> Entries:
    """The lines of the golden log's file."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def written(folder: Path, entries: Entries, name: str = "log.ndjson") -> Path:
    file = folder / name
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    return file


@pytest.fixture(scope="module")
def refusing(server: Database, run_sql: Callable[[str], None], templates: dict[str, str]) -> Iterator[Engine]:
    """The owner's engine on an empty log that the tests of refusals share, because nothing is ever written to it."""
    name = f"flywheel_test_{os.getpid()}_refusing"
    run_sql(f'CREATE DATABASE "{name}" TEMPLATE "{templates["empty"]}"')
    opened = open_engine(server.named(name).owner_url)
    yield opened
    opened.dispose()
    run_sql(f'DROP DATABASE "{name}"')


def assert_nothing_was_written(engine: Engine) -> None:
    assert (PostgresStore(engine).head(), PostgresBlobs(engine).digests()) == (START, frozenset())
    with engine.connect() as connection:
        rows = connection.execute(
            text("SELECT (SELECT count(*) FROM append_keys), count(*) FROM stream_versions")
        ).one()
    assert tuple(rows) == (0, 0)


@pytest.mark.parametrize("name", ["log.ndjson", "log.ndjson.gz"])
def test_a_log_goes_into_a_file_and_into_another_database_unchanged(
    engine: Engine, target: Engine, tmp_path: Path, name: str
) -> None:
    assert export_log(engine, tmp_path / name) == END
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert import_log(target, tmp_path / name) == END
    ours, theirs = list(PostgresStore(engine).read_stored()), list(PostgresStore(target).read_stored())
    assert ours == theirs
    assert len(list(verify_chain(theirs, after=START, previous=GENESIS))) == END
    assert PostgresBlobs(target).digests() == PostgresBlobs(engine).digests()
    for digest in PostgresBlobs(engine).digests():
        assert PostgresBlobs(target).get(digest) == PostgresBlobs(engine).get(digest)
    Projector(target).catch_up()
    for fold in ALL:
        digests = {
            digest_changes(PostgresViews(found, PostgresStore(found), Position(END)).changes(fold))
            for found in (engine, target)
        }
        assert len(digests) == 1


def test_a_file_of_the_first_format_is_read_and_written_in_the_present_one(target: Engine, tmp_path: Path) -> None:
    with gzip.open(log_of("spine"), "rt", encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    assert entries[0]["format"] == PLAIN_BLOBS
    import_log(target, log_of("spine"))
    export_log(target, tmp_path / "again.ndjson.gz")
    with gzip.open(tmp_path / "again.ndjson.gz", "rt", encoding="utf-8") as lines:
        again = [json.loads(line) for line in lines]
    assert again[0] == {**entries[0], "format": FORMAT}
    assert canonical_lines(again[1:], but="blob") == canonical_lines(entries[1:], but="blob")
    assert {(entry["blob"], entry["media_type"]) for entry in again if "blob" in entry} == {
        (entry["blob"], entry["media_type"]) for entry in entries if "blob" in entry
    }


def test_a_file_that_is_written_again_from_what_it_gave_is_the_same(
    engine: Engine, target: Engine, tmp_path: Path
) -> None:
    PostgresBlobs(engine, MemoryKeys()).put([Blob("text/plain", b"secret")], subject="person-1")
    for source, name in ((engine, "first"), (target, "second")):
        export_log(source, tmp_path / name)
        if source is engine:
            import_log(target, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def canonical_lines(entries: Entries, *, but: str) -> list[str]:
    """The lines but those of a kind. Keys are compared without their chain, which older files lack."""
    found = ({**entry, "chain": None} if "key" in entry else entry for entry in entries if but not in entry)
    return sorted(json.dumps(entry, sort_keys=True) for entry in found)


def test_subjects_go_over_encrypted_and_can_be_read_only_where_their_keys_are(
    engine: Engine, owner_engine: Engine, target: Engine, tmp_path: Path
) -> None:
    keys, file = MemoryKeys(), tmp_path / "log.ndjson"
    ours = PostgresBlobs(engine, keys)
    (mine,) = ours.put([Blob("text/plain", b"a secret of person-1")], subject="person-1")
    (gone,) = ours.put([Blob("text/plain", b"a secret of person-2")], subject="person-2")
    PostgresBlobs(owner_engine, keys).erase("person-2")
    export_log(engine, file)
    assert b"secret" not in file.read_bytes()
    assert base64.b64encode(b"a secret of")[:-4] not in file.read_bytes()
    import_log(target, file)
    assert PostgresBlobs(target, keys).get(mine) == Blob("text/plain", b"a secret of person-1")
    for address in (mine, gone):
        with pytest.raises(BlobErased):
            PostgresBlobs(target, MemoryKeys()).get(address)
    with pytest.raises(BlobErased):
        PostgresBlobs(target, keys).get(gone)
    assert PostgresBlobs(target, keys).digests() == ours.digests()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"body": base64.b64encode(b"other").decode()}, BlobDamaged),
        ({"body": None}, NotALog),
        ({"size": 1}, BlobDamaged),
        ({"size": None}, NotALog),
        ({"encoding": "gzip"}, NotALog),
        ({"blob": "0" * 64}, BlobDamaged),
        ({"blob": "x"}, NotALog),
        ({"subject": "person-1"}, NotALog),
        ({"media_type": "nul\0"}, NotALog),
    ],
    ids=str,
)
def test_a_blob_of_the_present_format_that_was_tampered_with_is_refused(
    empty_engine: Engine, refusing: Engine, tmp_path: Path, change: dict[str, Any], error: type[FlywheelError]
) -> None:
    PostgresBlobs(empty_engine).put([Blob("text/plain", b"words and words and words and words and words")])
    export_log(empty_engine, tmp_path / "log.ndjson")
    header, blob = map(json.loads, (tmp_path / "log.ndjson").read_text().splitlines())
    with pytest.raises(error):
        import_log(refusing, written(tmp_path, [header, {**blob, **change}]))
    assert_nothing_was_written(refusing)


def test_what_was_appended_before_is_repeated_after_and_what_is_new_goes_on(
    empty_engine: Engine, target: Engine, clone: Callable[[str], Database], tmp_path: Path
) -> None:
    first, second = sample("RewriteWon"), sample("RewriteLost")
    one = Append("s", (first, second), "test", expect=0, key="one")
    PostgresStore(empty_engine).append([one])
    export_log(empty_engine, tmp_path / "log.ndjson")
    other = open_engine(clone("empty").owner_url)
    try:
        import_log(other, tmp_path / "log.ndjson")
        store = PostgresStore(other)
        assert list(store.append([one, Append("s", (first,), "test", expect=2)])) == [
            Repeated(Position(1), Position(2)),
            Committed(Position(3), Position(3), 3),
        ]
        assert len(list(verify_chain(store.read_stored(), after=START, previous=GENESIS))) == 3
    finally:
        other.dispose()


def test_an_empty_log_goes_over_with_its_blobs(
    empty_engine: Engine, clone: Callable[[str], Database], tmp_path: Path
) -> None:
    blob = Blob("text/plain", b"put, and never named by an event")
    PostgresBlobs(empty_engine).put([blob])
    assert export_log(empty_engine, tmp_path / "log.ndjson") == 0
    other = open_engine(clone("empty").owner_url)
    try:
        assert import_log(other, tmp_path / "log.ndjson") == 0
        assert PostgresBlobs(other).get(blob.digest) == blob
    finally:
        other.dispose()


def test_a_log_that_holds_events_takes_no_import(owner_engine: Engine) -> None:
    before = list(PostgresStore(owner_engine).read_stored())
    with pytest.raises(LogNotEmpty) as caught:
        import_log(owner_engine, GOLDEN)
    assert caught.value.facts["actual"] == END
    assert list(PostgresStore(owner_engine).read_stored()) == before


def first(entries: Entries, kind: str) -> dict[str, Any]:
    return next(entry for entry in entries if kind in entry)


def last(entries: Entries, kind: str) -> dict[str, Any]:
    return next(entry for entry in reversed(entries) if kind in entry)


def without(entries: Entries, entry: dict[str, Any]) -> Entries:
    return [other for other in entries if other is not entry]


TAMPERED: dict[str, tuple[Callable[[Entries], object], type[FlywheelError]]] = {
    "a payload": (lambda e: e[100]["payload"].update(run="another"), BrokenChain),
    "a float": (lambda e: e[100]["payload"].update(run=1.5), BrokenChain),
    "an actor": (lambda e: e[100].update(actor="another"), BrokenChain),
    "a stream": (lambda e: e[100].update(stream="another"), BrokenChain),
    "a stream without a name in Unicode": (lambda e: e[100].update(stream="\ud800"), BrokenChain),
    "a time": (lambda e: e[100].update(at=e[101]["at"][:-6] + "+00:01"), BrokenChain),
    "a time without a zone": (lambda e: e[100].update(at="2026-01-01T00:00:00"), NotALog),
    "a time that is none": (lambda e: e[100].update(at="yesterday"), NotALog),
    "a chain": (lambda e: e[100].update(chain="00" * 32), BrokenChain),
    "a chain that is no number": (lambda e: e[100].update(chain="xyz"), NotALog),
    "a version": (lambda e: e[100].update(version=77), BrokenChain),
    "a version that is text": (lambda e: e[100].update(version="77"), NotALog),
    "a version beyond any": (lambda e: e[100].update(version=2**70), NotALog),
    "a position that is text": (lambda e: e[100].update(position="100"), BrokenChain),
    "a payload that is none": (lambda e: e[100].update(payload=None), BrokenChain),
    "a field more": (lambda e: e[100].update(more=1), NotALog),
    "a field less": (lambda e: e[100].pop("actor"), NotALog),
    "a row removed": (lambda e: e.pop(100), BrokenChain),
    "a row twice": (lambda e: e.insert(100, e[100]), BrokenChain),
    "a pair swapped": (lambda e: e.insert(100, e.pop(101)), BrokenChain),
    "a key removed": (lambda e: e.remove(last(e, "key")), NotALog),
    "a key twice": (lambda e: e.append(first(e, "key")), NotALog),
    "a key without its digest": (lambda e: first(e, "key").pop("digest"), NotALog),
    "a blob removed": (lambda e: e.remove(last(e, "blob")), NotALog),
    "a blob's bytes": (lambda e: first(e, "blob").update(body="AAAA"), BlobDamaged),
    "a blob's bytes that are none": (lambda e: first(e, "blob").update(body="*"), NotALog),
    "a blob without its type": (lambda e: first(e, "blob").pop("media_type"), NotALog),
    "the header's format": (lambda e: e[0].update(format="flywheel-log-9"), NotALog),
    "the header's head": (lambda e: e[0].update(head=END - 1), NotALog),
    "the header without its head": (lambda e: e[0].pop("head"), NotALog),
    "the header removed": (lambda e: e.pop(0), NotALog),
    "everything": (lambda e: e.clear(), NotALog),
    "all but the header": (lambda e: e.__delitem__(slice(1, None)), NotALog),
    "the end": (lambda e: e.__delitem__(slice(END - 20, None)), NotALog),
    "everything but the events": (lambda e: e.__delitem__(slice(END + 1, None)), NotALog),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_file_that_was_tampered_with_is_refused_by_name_and_nothing_of_it_is_kept(
    refusing: Engine, entries: Entries, tmp_path: Path, what: str
) -> None:
    damage, error = TAMPERED[what]
    copied: Entries = json.loads(json.dumps(entries))
    damage(copied)
    with pytest.raises(error):
        import_log(refusing, written(tmp_path, copied))
    assert_nothing_was_written(refusing)


def test_a_value_that_the_database_refuses_is_told_without_its_statement(
    refusing: Engine, entries: Entries, tmp_path: Path
) -> None:
    copied: Entries = json.loads(json.dumps(entries))
    first(copied, "key")["key"] = None
    with pytest.raises(NotALog) as caught:
        import_log(refusing, written(tmp_path, copied))
    assert "append_keys" in str(caught.value)
    assert "INSERT" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_progress_is_called_once_for_each_event_and_the_header_says_how_many(
    engine: Engine, target: Engine, tmp_path: Path
) -> None:
    file, out, back = tmp_path / "log.ndjson.gz", list[int](), list[int]()
    export_log(engine, file, lambda: out.append(1))
    import_log(target, file, lambda: back.append(1))
    assert (len(out), len(back), events_in(file)) == (END, END, END)


@pytest.mark.parametrize("head", [None, -1, "7", [1]])
def test_a_header_without_a_number_of_events_is_refused_by_name(tmp_path: Path, head: object) -> None:
    file = written(tmp_path, [{"format": FORMAT, "head": head}])
    with pytest.raises(NotALog, match="a number of events"):
        events_in(file)


@pytest.mark.parametrize("name", ["log.ndjson", "log.ndjson.gz"])
def test_an_export_is_private_also_where_a_readable_half_of_one_was_left(
    empty_engine: Engine, tmp_path: Path, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    (tmp_path / f"{name}.partial").symlink_to(elsewhere)
    export_log(empty_engine, tmp_path / name)
    assert elsewhere.read_text() == "kept"
    (tmp_path / f"{name}.partial").write_text("half")
    (tmp_path / f"{name}.partial").chmod(0o644)
    export_log(empty_engine, tmp_path / name)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_an_export_is_on_the_disk_before_it_bears_its_name(
    empty_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        acts.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def renamed(self: Path, other: Path) -> Path:
        acts.append("renamed")
        return rename(self, other)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    export_log(empty_engine, tmp_path / "log")
    assert acts == ["log.partial", "renamed", tmp_path.name]


@pytest.mark.parametrize("line", ["[]", "7", "{", "", '"text"', "\x00"])
def test_a_line_that_is_no_object_is_refused_by_name(
    refusing: Engine, entries: Entries, tmp_path: Path, line: str
) -> None:
    file = written(tmp_path, entries[:50])
    file.write_text(file.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(NotALog):
        import_log(refusing, file)
    assert_nothing_was_written(refusing)


@pytest.mark.parametrize("kept", [0, 1, 10, 1000, 50_000, -1, -9])
def test_a_compressed_file_that_was_cut_short_is_refused_by_name(refusing: Engine, tmp_path: Path, kept: int) -> None:
    file = tmp_path / "cut.ndjson.gz"
    file.write_bytes(GOLDEN.read_bytes()[:kept])
    with pytest.raises(NotALog):
        import_log(refusing, file)
    assert_nothing_was_written(refusing)


def test_a_compressed_file_with_a_wrong_byte_and_one_that_is_not_compressed_are_refused_by_name(
    refusing: Engine, entries: Entries, tmp_path: Path
) -> None:
    whole = bytearray(GOLDEN.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    damaged = tmp_path / "damaged.ndjson.gz"
    damaged.write_bytes(whole)
    for file in (damaged, written(tmp_path, entries, "plain.ndjson.gz")):
        with pytest.raises(NotALog):
            import_log(refusing, file)
    assert_nothing_was_written(refusing)


def test_a_log_that_refused_a_file_takes_a_whole_one(target: Engine, entries: Entries, tmp_path: Path) -> None:
    for file in (written(tmp_path, entries[:-1]), written(tmp_path, [*entries, entries[-200]])):
        with pytest.raises(NotALog):
            import_log(target, file)
    assert import_log(target, GOLDEN) == END


def test_the_application_cannot_import(empty_engine: Engine, empty_database: Database) -> None:
    if empty_database.app_role is None:
        pytest.skip("this server's application is its owner")
    with pytest.raises(Exception, match="permission denied"):
        import_log(empty_engine, GOLDEN)
    assert PostgresStore(empty_engine).head() == START
