"""What every blob store keeps, and what it forgets."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer
from sqlalchemy import Engine, text

from eventlog.blobs import Blob, Inventory, MemoryBlobs, PostgresBlobs
from eventlog.blobs.objects import ObjectBlobs, open_objects
from eventlog.database import open_engine
from eventlog.errors import BlobErased, BlobMissing, KeysUnset, SubjectGone
from eventlog.keys import Keys, MemoryKeys, NoKeys
from tests.conftest import Database

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PAGE = Blob("text/html", b"<p>\x00\xff</p>")
LONG = Blob("text/html", b"<p>the same words again and again</p>" * 200)
NOISE = Blob("image/png", sha256(b"seed").digest() * 1 + bytes(range(256)))
DAY = timedelta(days=1)
Act = tuple[str, str | None, int]


@dataclass
class Clock:
    """A clock that can be put forward."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Room:
    """A store, the same one with the right to remove bytes, and a way to let two days pass in it.

    Where the server dates what is put, those days are only in our clock, and what is put again is as old as the rest.
    """

    blobs: Inventory
    owned: Inventory
    pass_two_days: Callable[[], None]
    reopened: Callable[[Keys], Inventory]
    dates_by_itself: bool = False


@pytest.fixture(scope="session")
def bucket() -> Iterator[dict[str, str]]:
    """How to reach a bucket `flywheel` on a server of its own that speaks S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    httpx2.put(f"http://{host}:{port}/flywheel").raise_for_status()
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    server.stop()


def in_memory() -> Room:
    clock = Clock()
    blobs = MemoryBlobs(MemoryKeys(), clock)
    reopened: list[MemoryBlobs] = []

    def other(keys: Keys) -> Inventory:
        reopened.append(MemoryBlobs(keys, clock))
        reopened[-1].keep(blobs.read_envelopes())
        return reopened[-1]

    return Room(blobs, blobs, lambda: _forward(clock), other)


def _forward(clock: Clock) -> None:
    clock.ahead += 2 * DAY


def in_bucket(url: str) -> Room:
    clock, opened = Clock(), open_objects(url, MemoryKeys())
    blobs = ObjectBlobs(url, opened.store, opened.keys, clock)
    return Room(
        blobs,
        blobs,
        lambda: _forward(clock),
        lambda keys: ObjectBlobs(url, opened.store, keys, clock),
        dates_by_itself=True,
    )


def in_folder(folder: Path) -> Room:
    def pass_two_days() -> None:
        for file in (file for file in folder.rglob("*") if file.is_file()):
            moment = file.stat().st_mtime - 2 * DAY.total_seconds()
            os.utime(file, (moment, moment))

    url = f"file://{folder}"
    blobs = open_objects(url, MemoryKeys())
    return Room(blobs, blobs, pass_two_days, lambda keys: open_objects(url, keys))


def in_postgres(engine: Engine, owner: Engine, *, checks: bool = True) -> Room:
    def pass_two_days() -> None:
        with owner.begin() as connection:
            connection.execute(text("UPDATE blobs SET at = at - interval '2 days'"))

    keys = MemoryKeys()
    return Room(
        PostgresBlobs(engine, keys, checks=checks),
        PostgresBlobs(owner, keys, checks=checks),
        pass_two_days,
        lambda others: PostgresBlobs(engine, others),
    )


@pytest.fixture(params=["memory", "postgres", "postgres without a check", "folder", "s3"])
def room(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """An empty store of each kind."""
    match request.param:
        case "memory":
            yield in_memory()
        case "folder":
            yield in_folder(tmp_path / "blobs")
        case "s3":
            for name, value in request.getfixturevalue("bucket").items():
                monkeypatch.setenv(name, value)
            yield in_bucket(f"s3://flywheel/{tmp_path.name}")
        case _:
            database: Database = request.getfixturevalue("empty_database")
            owner = open_engine(database.owner_url)
            yield in_postgres(request.getfixturevalue("empty_engine"), owner, checks=request.param == "postgres")
            owner.dispose()


@pytest.fixture
def blobs(room: Room) -> Inventory:
    """An empty store of each kind."""
    return room.blobs


def test_a_blob_is_addressed_by_its_bytes_alone(blobs: Inventory) -> None:
    assert blobs.put([PAGE]) == (PAGE.digest,)
    assert PAGE.digest == sha256(PAGE.body).hexdigest()
    assert blobs.address_function()(PAGE) == PAGE.digest
    assert blobs.get(PAGE.digest) == PAGE
    assert blobs.digests() == {PAGE.digest}


def test_addresses_come_in_the_order_of_the_blobs(blobs: Inventory) -> None:
    assert blobs.put([LONG, PAGE, LONG, NOISE]) == (LONG.digest, PAGE.digest, LONG.digest, NOISE.digest)


def test_a_blob_is_kept_once_as_it_first_was(blobs: Inventory) -> None:
    blobs.put([PAGE, PAGE])
    blobs.put([Blob("text/plain", PAGE.body)])
    assert blobs.get(PAGE.digest) == PAGE
    assert len(blobs.digests()) == 1


def test_of_two_in_one_put_the_first_stays(blobs: Inventory) -> None:
    blobs.put([PAGE, Blob("text/plain", PAGE.body)])
    assert blobs.get(PAGE.digest) == PAGE


@pytest.mark.parametrize("body", [b"", b"\0", bytes(range(256)) * 8192], ids=["empty", "nul", "two megabytes"])
@pytest.mark.parametrize("subject", [None, "person-1"])
def test_any_bytes_come_back(blobs: Inventory, body: bytes, subject: str | None) -> None:
    blob = Blob("application/octet-stream", body)
    (address,) = blobs.put([blob], subject=subject)
    assert blobs.get(address) == blob


def test_nothing_may_be_put(blobs: Inventory) -> None:
    assert blobs.put([]) == ()
    assert blobs.put(iter(())) == ()
    assert blobs.digests() == frozenset()


@pytest.mark.parametrize("digest", ["0" * 64, "", PAGE.digest.upper(), "../../etc/passwd", "subjects"])
def test_a_digest_that_was_never_put_is_missing_by_name(blobs: Inventory, digest: str) -> None:
    blobs.put([PAGE])
    with pytest.raises(BlobMissing) as caught:
        blobs.get(digest)
    assert caught.value.facts == {"actual": digest}
    with pytest.raises(BlobMissing):
        list(blobs.read_envelopes([PAGE.digest, digest]))


@pytest.mark.parametrize("subject", [None, "person-1"])
def test_callers_side_by_side_may_put_the_same_blobs_in_any_order(blobs: Inventory, subject: str | None) -> None:
    many = [Blob("text/plain", str(n).encode()) for n in range(60)]
    orders = [many, many[::-1], many[30:] + many[:30], many[::2], many[1::2], many]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda order: blobs.put(order, subject=subject), orders))
    name = blobs.address_function(subject)
    assert blobs.digests() == {name(blob) for blob in many}


def test_what_repeats_itself_takes_less_room_and_what_does_not_takes_its_own(blobs: Inventory) -> None:
    blobs.put([LONG, NOISE])
    stored = {item.address: (item.size, item.stored) for item in blobs.list_blobs()}
    assert stored[NOISE.digest] == (len(NOISE.body), len(NOISE.body))
    size, kept = stored[LONG.digest]
    assert size == len(LONG.body)
    assert kept < size / 10
    assert {item.encoding for item in blobs.read_envelopes()} == {"raw", "zstd"}


def test_a_listing_goes_in_order_and_goes_on_after_an_address(blobs: Inventory) -> None:
    blobs.put([PAGE, LONG, NOISE])
    listed = list(blobs.list_blobs())
    addresses = [item.address for item in listed]
    assert addresses == sorted(blobs.digests())
    assert [item.address for item in blobs.list_blobs(after=addresses[0])] == addresses[1:]
    assert {item.media_type for item in listed} == {"text/html", "image/png"}
    assert {item.subject for item in listed} == {None}
    assert not any(item.is_erased for item in listed)


def test_a_subjects_blob_has_an_address_of_the_subjects_own(blobs: Inventory) -> None:
    (nobodys,) = blobs.put([LONG])
    (first,) = blobs.put([LONG], subject="person-1")
    (again,) = blobs.put([LONG], subject="person-1")
    (other,) = blobs.put([LONG], subject="person-2")
    (typed,) = blobs.put([Blob("text/plain", LONG.body)], subject="person-1")
    assert first == again == blobs.address_function("person-1")(LONG)
    assert len({nobodys, first, other, typed}) == 4
    assert [blobs.get(address) for address in (nobodys, first, other)] == [LONG] * 3
    assert blobs.get(typed).media_type == "text/plain"


def test_what_is_stored_of_a_subject_shows_neither_name_nor_bytes(blobs: Inventory) -> None:
    blobs.put([NOISE], subject="person-1")
    (envelope,) = blobs.read_envelopes()
    assert envelope.body is not None
    assert envelope.subject is not None
    assert b"person-1" not in envelope.subject + envelope.body
    assert NOISE.body[:16] not in envelope.body
    assert envelope.encoding == "raw"
    assert len(envelope.body) > len(NOISE.body)


def test_an_erased_subject_is_gone_for_ever_and_no_other(room: Room) -> None:
    mine = room.blobs.put([PAGE, LONG], subject="person-1")
    (theirs,) = room.blobs.put([PAGE], subject="person-2")
    (nobodys,) = room.blobs.put([PAGE])
    assert room.owned.erase("person-1") == 2
    for address in mine:
        with pytest.raises(BlobErased) as caught:
            room.blobs.get(address)
        assert caught.value.facts == {"actual": address}
    assert (room.blobs.get(theirs), room.blobs.get(nobodys)) == (PAGE, PAGE)
    with pytest.raises(SubjectGone) as gone:
        room.blobs.put([NOISE], subject="person-1")
    assert gone.value.facts == {"actual": "person-1"}
    with pytest.raises(SubjectGone):
        room.blobs.address_function("person-1")
    assert room.owned.erase("person-1") == 2


def test_an_erased_blob_leaves_a_tombstone_with_its_size_and_no_byte(room: Room) -> None:
    (address,) = room.blobs.put([LONG], subject="person-1")
    room.owned.erase("person-1")
    assert room.blobs.digests() == {address}
    (item,) = room.blobs.list_blobs()
    assert (item.size, item.stored, item.is_erased, item.media_type) == (len(LONG.body), 0, True, "text/html")
    (envelope,) = room.blobs.read_envelopes()
    assert envelope.body is None


def test_a_subject_without_a_blob_can_be_erased_and_never_gets_one(room: Room) -> None:
    assert room.owned.erase("person-9") == 0
    with pytest.raises(SubjectGone):
        room.blobs.put([PAGE], subject="person-9")


def test_where_a_subjects_key_is_not_here_its_blobs_answer_erased_whatever_other_key_is(room: Room) -> None:
    (address,) = room.blobs.put([LONG], subject="person-1")
    without = room.reopened(MemoryKeys())
    with pytest.raises(BlobErased):
        without.get(address)
    (second,) = without.put([LONG], subject="person-1")
    assert second != address
    assert without.get(second) == LONG
    with pytest.raises(BlobErased):
        without.get(address)
    assert room.blobs.get(address) == LONG


def test_without_a_place_for_keys_nobodys_blobs_alone_are_kept(room: Room) -> None:
    bare = room.reopened(NoKeys())
    (address,) = bare.put([PAGE])
    assert bare.get(address) == PAGE
    with pytest.raises(KeysUnset):
        bare.put([PAGE], subject="person-1")
    with pytest.raises(KeysUnset):
        bare.erase("person-1")


def test_blobs_go_over_in_their_stored_form(room: Room) -> None:
    room.blobs.put([PAGE, LONG])
    room.blobs.put([LONG], subject="person-1")
    room.blobs.put([LONG], subject="person-2")
    room.owned.erase("person-2")
    other = MemoryBlobs(room.blobs.keys)
    other.keep(room.blobs.read_envelopes())
    assert list(other.read_envelopes()) == list(room.blobs.read_envelopes())
    room.blobs.keep(other.read_envelopes())
    assert list(room.blobs.read_envelopes()) == list(other.read_envelopes())
    assert other.get(other.address_function("person-1")(LONG)) == LONG


def test_only_what_is_older_is_removed_and_putting_it_again_makes_it_young(room: Room) -> None:
    addresses = room.blobs.put([PAGE, LONG, NOISE])
    assert room.owned.remove(addresses, older_than=DAY) == 0
    room.pass_two_days()
    room.blobs.put([PAGE])
    assert room.owned.remove(addresses[:2], older_than=DAY) == 1 + room.dates_by_itself
    assert (PAGE.digest in room.blobs.digests()) is not room.dates_by_itself
    assert room.blobs.digests() >= {NOISE.digest}
    assert room.owned.remove([*addresses, "0" * 64], older_than=timedelta(days=400)) == 0


class PutAfterListing:
    """A store in which a blob is put again as soon as all are listed."""

    def __init__(self, store: Any, again: Callable[[], object]) -> None:
        self._store, self._again = store, again

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, prefix: str | None) -> Iterator[Any]:
        yield from self._store.list(prefix)
        self._again()


def test_a_blob_that_is_put_again_while_a_sweep_goes_on_stays(tmp_path: Path) -> None:
    room = in_folder(tmp_path)
    assert isinstance(room.owned, ObjectBlobs)
    (address, other) = room.blobs.put([PAGE, NOISE])
    room.pass_two_days()
    store = cast("ObjectStore", PutAfterListing(room.owned.store, lambda: room.blobs.put([PAGE])))
    assert replace(room.owned, store=store).remove([address, other], older_than=DAY) == 1
    assert room.blobs.digests() == {address}
    assert room.blobs.get(address) == PAGE


def test_two_sweeps_of_the_same_blobs_remove_each_once(tmp_path: Path) -> None:
    room = in_folder(tmp_path)
    assert isinstance(room.owned, ObjectBlobs)
    addresses = room.blobs.put([PAGE, NOISE])
    room.pass_two_days()
    removed: list[int] = []
    store = PutAfterListing(room.owned.store, lambda: removed.append(room.owned.remove(addresses, older_than=DAY)))
    removed.append(replace(room.owned, store=cast("ObjectStore", store)).remove(addresses, older_than=DAY))
    assert removed == [2, 0]


def test_a_tombstone_is_never_removed(room: Room) -> None:
    (address,) = room.blobs.put([PAGE], subject="person-1")
    room.owned.erase("person-1")
    room.pass_two_days()
    assert room.owned.remove([address], older_than=DAY) == 0
    with pytest.raises(BlobErased):
        room.blobs.get(address)


def test_a_removed_blob_is_missing_and_may_be_put_again(room: Room) -> None:
    (mine,) = room.blobs.put([PAGE], subject="person-1")
    (nobodys,) = room.blobs.put([PAGE])
    room.pass_two_days()
    assert room.owned.remove([mine, nobodys], older_than=DAY) == 2
    with pytest.raises(BlobMissing):
        room.blobs.get(mine)
    assert room.blobs.put([PAGE], subject="person-1") == (mine,)
    assert room.blobs.get(mine) == PAGE
    assert room.owned.erase("person-1") == 1


_examples = itertools.count()
ACTS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "erase"]), st.sampled_from([None, "a", "b"]), st.integers(0, 5)),
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS)
def test_after_any_puts_and_erasures_each_address_answers_what_is_left_of_it(room: Room, acts: list[Act]) -> None:
    example = next(_examples)
    expected: dict[str, tuple[str | None, Blob]] = {}
    gone: set[str] = set()
    for what, whose, number in acts:
        subject = None if whose is None else f"{whose}-{example}"
        blob = Blob("text/plain", f"{example}: {number}".encode() * (number + 1))
        if what == "erase" and subject is not None:
            assert room.owned.erase(subject) == sum(owner == subject for owner, _ in expected.values())
            gone.add(subject)
        elif subject in gone:
            with pytest.raises(SubjectGone):
                room.blobs.put([blob], subject=subject)
        else:
            (address,) = room.blobs.put([blob], subject=subject)
            assert expected.setdefault(address, (subject, blob)) == (subject, blob)
    assert room.blobs.digests() >= expected.keys()
    for address, (subject, blob) in expected.items():
        if subject in gone:
            with pytest.raises(BlobErased):
                room.blobs.get(address)
        else:
            assert room.blobs.get(address) == blob
