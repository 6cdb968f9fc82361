from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eventlog.errors import ForeignKey, ForeignLog, KeysRewritten, LogRewritten, LogTruncated, SignatureBroken
from eventlog.signature import LogHead, Signed, check_log_head, check_signature, key_fingerprint, sign
from eventlog.store import Position

OURS = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
THEIRS = Ed25519PrivateKey.from_private_bytes(bytes(32))
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def standing(head: int, *, project: str = "boats", rewritten_from: int | None = None) -> LogHead:
    """A log whose chain values are made up; `rewritten_from` changes them from a position on."""

    def chain_at(position: Position) -> bytes:
        is_other = rewritten_from is not None and position >= rewritten_from
        return bytes([is_other]) + int(position).to_bytes(31, "big")

    return LogHead(project, Position(head), chain_at)


SIGNED = sign(standing(7), NOON, OURS)


def test_a_signed_head_stands_while_the_log_only_grows() -> None:
    check_signature(SIGNED, OURS.public_key())
    for head in (7, 8, 1_000_000):
        check_log_head(SIGNED, standing(head))
        check_log_head(SIGNED, standing(head, rewritten_from=8))
    assert (SIGNED.position, SIGNED.project, SIGNED.at) == (7, "boats", "2026-11-21T12:00:00+00:00")


@pytest.mark.parametrize("head", [0, 1, 6])
def test_a_log_that_ends_before_what_was_signed_was_truncated(head: int) -> None:
    with pytest.raises(LogTruncated) as caught:
        check_log_head(SIGNED, standing(head))
    assert (caught.value.facts["actual"], caught.value.facts["expected"]) == (head, 7)


@pytest.mark.parametrize("rewritten_from", [2, 7])
def test_another_chain_at_the_signed_position_is_a_rewritten_log(rewritten_from: int) -> None:
    for head in (7, 20):
        with pytest.raises(LogRewritten):
            check_log_head(SIGNED, standing(head, rewritten_from=rewritten_from))


def test_keys_that_were_rewritten_are_told_from_those_that_were_signed() -> None:
    keyed = replace(standing(9), head=Position(7), key_chain_at=lambda position: bytes([position] * 32))
    signed = sign(keyed, NOON, OURS)
    check_signature(signed, OURS.public_key())
    check_log_head(signed, replace(keyed, head=Position(9)))
    for changed in (replace(keyed, key_chain_at=lambda _position: bytes(32)), standing(9)):
        with pytest.raises(KeysRewritten):
            check_log_head(signed, changed)
    with pytest.raises(SignatureBroken):
        check_signature(signed.model_copy(update={"keys": None}), OURS.public_key())
    assert (SIGNED.format, SIGNED.keys, signed.format) == ("flywheel-signature-1", None, "flywheel-signature-2")


@pytest.mark.parametrize("other", [standing(9, project="cars"), standing(9, rewritten_from=1)])
def test_another_project_or_another_first_event_is_a_foreign_log(other: LogHead) -> None:
    with pytest.raises(ForeignLog):
        check_log_head(SIGNED, other)


def test_a_key_that_is_not_trusted_is_named_whatever_it_signed() -> None:
    with pytest.raises(ForeignKey) as caught:
        check_signature(sign(standing(7), NOON, THEIRS), OURS.public_key())
    assert caught.value.facts["expected"] == key_fingerprint(OURS.public_key().public_bytes_raw())
    assert caught.value.facts["actual"] == key_fingerprint(THEIRS.public_key().public_bytes_raw())


ALTERED = {
    "project": "cars",
    "log": "00" * 32,
    "position": 6,
    "chain": "11" * 32,
    "keys": "33" * 32,
    "at": "2026-11-21T12:00:01+00:00",
    "signature": "22" * 64,
}


@pytest.mark.parametrize("field", ALTERED)
def test_a_statement_that_was_altered_anywhere_is_broken(field: str) -> None:
    altered = SIGNED.model_copy(update={field: ALTERED[field]})
    with pytest.raises(SignatureBroken):
        check_signature(altered, OURS.public_key())


def test_the_altered_fields_are_all_there_are() -> None:
    assert {*ALTERED, "format", "public_key"} == set(Signed.model_fields)


@given(st.integers(0, 63), st.integers(0, 7))
def test_no_bit_of_a_signature_may_change(byte: int, bit: int) -> None:
    raw = bytearray.fromhex(SIGNED.signature)
    raw[byte] ^= 1 << bit
    with pytest.raises(SignatureBroken):
        check_signature(SIGNED.model_copy(update={"signature": raw.hex()}), OURS.public_key())


def test_a_signed_head_comes_back_from_its_json_whatever_the_order_of_its_fields() -> None:
    fields = json.loads(SIGNED.model_dump_json())
    turned = Signed.model_validate_json(json.dumps(dict(reversed(fields.items())), indent=7))
    assert turned == SIGNED
    check_signature(turned, OURS.public_key())


@pytest.mark.parametrize(
    "wrong",
    [{"format": "flywheel-signature-9"}, {"position": 0}, {"position": "7"}, {"chain": "AB" * 32}, {"more": 1}],
)
def test_what_is_no_signed_head_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Signed.model_validate_json(json.dumps({**json.loads(SIGNED.model_dump_json()), **wrong}))
