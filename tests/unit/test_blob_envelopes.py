"""How a blob is stored: it comes back whole, or what is wrong is said."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.blobs import Blob
from eventlog.blobs.encryption import OVERHEAD
from eventlog.blobs.envelope import (
    HEADER_MOST,
    MANY,
    Envelope,
    envelope_json,
    from_plain,
    open_envelope,
    pack,
    sealer,
    unpack,
)
from eventlog.errors import BlobDamaged, BlobErased, FlywheelError
from eventlog.keys import MemoryKeys

KEYS = MemoryKeys()
SUBJECTS = st.sampled_from([None, "a", "b"])
BODIES = st.binary(max_size=300) | st.builds(lambda part, n: part * n, st.binary(max_size=30), st.integers(0, 100))
BLOBS = st.builds(Blob, st.sampled_from(["text/plain", "image/png", "text/html; charset=utf-8"]), BODIES)
WORDS = Blob("text/plain", b"words and words and words " * 20)
NOISE = Blob("text/plain", bytes(range(256)))


def sealed(blob: Blob, subject: str | None) -> Envelope:
    seal = sealer(KEYS, subject)
    return seal.envelope(blob, seal.address(blob))


@given(BLOBS, SUBJECTS)
def test_a_blob_comes_back_from_every_form(blob: Blob, subject: str | None) -> None:
    envelope = sealed(blob, subject)
    assert open_envelope(envelope, KEYS) == blob
    assert unpack(envelope.address, pack(envelope))[0] == envelope
    assert from_plain(json.loads(json.dumps(envelope_json(envelope)))) == envelope
    assert sealed(blob, subject) == envelope


@pytest.mark.parametrize("large", [0, 2 * MANY], ids=["few", "many"])
@given(blobs=st.lists(BLOBS, max_size=5), subject=SUBJECTS)
def test_blobs_that_are_stored_together_have_the_form_that_each_has_alone(
    large: int, blobs: list[Blob], subject: str | None
) -> None:
    seal = sealer(KEYS, subject)
    named = {seal.address(blob): blob for blob in (*blobs, Blob("text/plain", b""), Blob("text/plain", b"a" * large))}
    assert list(seal.envelopes(named)) == [seal.envelope(blob, address) for address, blob in named.items()]


@given(BLOBS, SUBJECTS)
def test_a_stored_form_is_never_larger_than_the_bytes_and_what_encryption_adds(blob: Blob, subject: str | None) -> None:
    body = sealed(blob, subject).body
    assert body is not None
    assert len(body) <= len(blob.body) + (OVERHEAD if subject else 0)


@given(BLOBS, BLOBS, SUBJECTS, SUBJECTS)
def test_addresses_are_equal_only_where_all_is(one: Blob, two: Blob, first: str | None, second: str | None) -> None:
    is_same = first == second and one.body == two.body and (first is None or one == two)
    assert (sealed(one, first).address == sealed(two, second).address) is is_same


@pytest.mark.parametrize("subject", [None, "a"])
@pytest.mark.parametrize("blob", [WORDS, NOISE], ids=["compressed", "raw"])
def test_every_changed_bit_is_noticed(blob: Blob, subject: str | None) -> None:
    envelope = sealed(blob, subject)
    assert envelope.body is not None
    for place in range(0, len(envelope.body), 3):
        changed = bytearray(envelope.body)
        changed[place] ^= 4
        with pytest.raises((BlobDamaged, BlobErased)):
            open_envelope(replace(envelope, body=bytes(changed)), KEYS)
    for body in (b"", envelope.body[:-1], envelope.body + b"x"):
        with pytest.raises((BlobDamaged, BlobErased)):
            open_envelope(replace(envelope, body=body), KEYS)


WRONG: list[dict[str, Any]] = [
    {"size": 1},
    {"address": "0" * 64},
    {"encoding": "zstd"},
    {"subject": None},
    {"media_type": "text/html"},
]


@pytest.mark.parametrize("change", WRONG, ids=lambda change: str(next(iter(change))))
def test_a_subjects_blob_cannot_pass_for_another(change: dict[str, Any]) -> None:
    with pytest.raises(BlobDamaged) as caught:
        open_envelope(replace(sealed(NOISE, "a"), **change), KEYS)
    assert caught.value.facts["expected"] == change.get("address", sealed(NOISE, "a").address)


def test_the_bytes_of_one_subject_are_erased_for_another() -> None:
    mine, theirs = sealed(NOISE, "a"), sealed(NOISE, "b")
    with pytest.raises(BlobErased):
        open_envelope(replace(mine, subject=theirs.subject), KEYS)


def test_equal_bytes_of_two_subjects_share_nothing() -> None:
    mine, theirs = sealed(WORDS, "a"), sealed(WORDS, "b")
    assert mine.body is not None
    assert theirs.body is not None
    windows = [{body[n : n + 8] for n in range(len(body) - 7)} for body in (mine.body, theirs.body)]
    assert windows[0] & windows[1] == set()


def test_other_bytes_never_meet_the_same_nonce() -> None:
    bodies = [sealed(Blob("text/plain", str(n).encode()), "a").body for n in range(500)]
    assert len({body[8:20] for body in bodies if body is not None}) == 500


def test_a_decompression_that_claims_another_size_is_refused() -> None:
    with pytest.raises(BlobDamaged, match="size"):
        open_envelope(replace(sealed(WORDS, None), size=10**12), KEYS)


PACKED = pack(sealed(WORDS, "a"))


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"FWB",
        b"FWB1",
        b"XXXX" + PACKED[4:],
        PACKED[:20],
        PACKED[:4] + b"\xff\xff\xff\xff" + PACKED[8:],
        PACKED.replace(b'"zstd"', b'"gzip"'),
        PACKED.replace(b'"size"', b'"sise"'),
        b"FWB1\0\0\0\x02[]",
    ],
)
def test_an_object_that_is_none_of_ours_is_damaged(packed: bytes) -> None:
    with pytest.raises(BlobDamaged):
        unpack("0" * 64, packed)


def test_a_tombstone_is_erased_in_every_form() -> None:
    tombstone = replace(sealed(WORDS, "a"), body=None)
    for form in (tombstone, unpack(tombstone.address, pack(tombstone))[0], from_plain(envelope_json(tombstone))):
        assert form == tombstone
        with pytest.raises(BlobErased):
            open_envelope(form, KEYS)


def test_a_header_is_read_from_the_beginning_alone() -> None:
    envelope = sealed(Blob("x" * 200, bytes(10_000)), "a")
    beginning, start = unpack(envelope.address, pack(envelope)[:HEADER_MOST])
    assert (beginning.media_type, beginning.size) == (envelope.media_type, envelope.size)
    assert start < HEADER_MOST


@pytest.mark.parametrize(
    "change",
    [
        {"body": "*"},
        {"body": None},
        {"blob": "x"},
        {"blob": None},
        {"size": -1},
        {"size": "1"},
        {"encoding": "gzip"},
        {"media_type": 7},
        {"subject": "name"},
        {"body": base64.b64encode(b"other").decode()},
    ],
    ids=str,
)
def test_a_line_that_is_no_blob_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, FlywheelError)):
        from_plain({**envelope_json(sealed(WORDS, None)), **change})
