"""Canonical bytes and the hash chain. Pure.

Canonical bytes are RFC 8785 for the values a log may hold: no floats, integers within 2^53, text without NUL and lone
surrogates. Each event's chain value is
`sha256(previous | position | length of stream | stream | version | at | digest)`, integers big-endian,
`at` in microseconds since 1970, `previous` being the chain value of the event before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from .errors import BrokenChain, UnstorableNumber, UnstorableText
from .store import Position, Stored

GENESIS = bytes(32)
EXACT = 2**53 - 1
"""The largest integer that every JSON parser reads exactly; larger integers are written as strings."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def canonical(value: object) -> bytes:
    """Canonical bytes of a JSON value. Raises UnstorableNumber, UnstorableText."""
    checked = _check_storable(value, "$")
    return json.dumps(checked, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def canonical_text(payload: str) -> bytes:
    """Canonical bytes of a value given as JSON text. Raises UnstorableText, UnstorableNumber, ValueError.

    ASCII text without Unicode escapes takes the fast path: its code point order equals its UTF-16 order.
    """
    try:
        value = json.loads(payload, parse_int=_exact, parse_float=_inexact, parse_constant=_inexact)
    except _Unusual:
        return canonical(json.loads(payload))
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return canonical(value) if "\\u" in plain else plain.encode()


class _Unusual(Exception):
    """A number that no event may hold. canonical() then raises the error that says where it is."""


def _exact(digits: str) -> int:
    number = int(digits)
    if not -EXACT <= number <= EXACT:
        raise _Unusual
    return number


def _inexact(_digits: str) -> float:
    raise _Unusual


def _check_storable(value: object, where: str) -> object:
    """The value with its keys sorted by UTF-16 code units (RFC 8785). Raises UnstorableNumber, UnstorableText."""
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and not -EXACT <= value <= EXACT
    ):
        raise UnstorableNumber(actual=value, where=where)
    elif isinstance(value, Mapping):
        for key in value:
            _check_text(key, f"{where}.{key!r}")
        return {key: _check_storable(value[key], f"{where}.{key}") for key in sorted(value, key=_code_units)}
    elif isinstance(value, list | tuple):
        return [_check_storable(item, f"{where}[{index}]") for index, item in enumerate(value)]
    return value


def _code_units(text: str) -> bytes:
    return text.encode("utf-16-be")


def _check_text(text: str, where: str) -> None:
    if "\0" in text:
        raise UnstorableText(actual="a NUL character", where=where)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise UnstorableText(actual="a lone surrogate", where=where)


def digest(value: object) -> bytes:
    """SHA-256 of the canonical bytes."""
    return hashlib.sha256(canonical(value)).digest()


def microseconds(at: datetime) -> int:
    """Whole microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def link(previous: bytes, row: Stored) -> bytes:
    """The chain value of a row that follows `previous`."""
    stream = row.stream.encode(errors="surrogatepass")
    return hashlib.sha256(
        previous
        + row.position.to_bytes(8, "big", signed=True)
        + len(stream).to_bytes(4, "big")
        + stream
        + row.version.to_bytes(8, "big", signed=True)
        + microseconds(row.at).to_bytes(8, "big", signed=True)
        + row.digest
    ).digest()


def event_digest(kind: str, schema_version: int, payload: object, actor: str, cause: Position | None) -> bytes:
    """The digest of one event: its type, version, payload, actor and cause."""
    return digest({"type": kind, "schema_version": schema_version, "payload": payload, "actor": actor, "cause": cause})


def stored_digest(row: Stored) -> bytes:
    """The digest of a stored row's content. Raises UnstorableNumber, UnstorableText."""
    return _digest_with(row, canonical_text(row.payload))


def _digest_with(row: Stored, payload: bytes) -> bytes:
    """The digest of a row with these canonical bytes of its payload.

    The parts are joined in the order of their names in canonical form.
    """
    envelope, kind = canonical({"actor": row.actor, "cause": row.cause})[:-1], canonical(row.type)
    whole = b'%s,"payload":%s,"schema_version":%d,"type":%s}' % (envelope, payload, row.schema_version, kind)
    return hashlib.sha256(whole).digest()


def verify_chain(rows: Iterable[Stored], *, after: Position, previous: bytes) -> Iterator[Stored]:
    """Yield rows while positions are contiguous and digests and chain values match. Raises BrokenChain."""
    return (row for row, _ in verify_payloads(rows, after=after, previous=previous))


def verify_payloads(rows: Iterable[Stored], *, after: Position, previous: bytes) -> Iterator[tuple[Stored, bytes]]:
    """Yield what `verify_chain` yields, each row with the canonical bytes of its payload. Raises BrokenChain."""
    expected_position = after + 1
    for row in rows:
        if row.position != expected_position:
            raise BrokenChain(
                position=expected_position, what="its place", actual=row.position, expected=expected_position
            )
        payload = _checked_payload(row)
        previous = link(previous, row)
        if previous != row.chain:
            raise BrokenChain(position=row.position, what="its chain", actual=row.chain.hex(), expected=previous.hex())
        expected_position += 1
        yield row, payload


def _checked_payload(row: Stored) -> bytes:
    """The canonical bytes of a row's payload. Raises BrokenChain unless the row has the digest of its content."""
    payload = b""
    try:
        payload = canonical_text(row.payload)
        recomputed = _digest_with(row, payload).hex()
    except (UnstorableNumber, UnstorableText) as error:
        recomputed = f"impossible ({error})"
    if recomputed != row.digest.hex():
        raise BrokenChain(
            position=row.position, what="its content digest", actual=recomputed, expected=row.digest.hex()
        )
    return payload
