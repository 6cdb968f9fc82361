"""The chain over append keys, and the verification of keys against the events that they stand for.

Each key's chain value is `sha256(previous | first | last | length of key | key | digest)`, integers big-endian,
`previous` being the chain value of the key before it, or 32 zero bytes for the first key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, text

from .chain import GENESIS
from .codec import EncodedEvent, content_digest
from .database import read_connection
from .errors import BrokenChain
from .store import START, Position, Stored

Verified = tuple[Stored, bytes]
"""A row whose digest and chain were verified, with the canonical bytes of its payload."""


@dataclass(frozen=True, slots=True)
class AppendKey:
    """A stored append key. `chain` is None if it was taken away, `previous` is the chain value of the key before it."""

    key: str
    digest: bytes
    first: Position
    last: Position
    chain: bytes | None
    previous: bytes | None


def link_key(previous: bytes, key: AppendKey) -> bytes:
    """The chain value of a key that follows `previous`."""
    name = key.key.encode(errors="surrogatepass")
    return hashlib.sha256(
        previous
        + key.first.to_bytes(8, "big", signed=True)
        + key.last.to_bytes(8, "big", signed=True)
        + len(name).to_bytes(4, "big")
        + name
        + key.digest
    ).digest()


_KEYS = text("""SELECT k.key, k.digest, k.first_position, k.last_position, k.chain,
        (SELECT p.chain FROM append_keys p WHERE p.last_position = k.first_position - 1 LIMIT 1) AS previous
    FROM append_keys k WHERE k.last_position > :after AND k.last_position <= :upto ORDER BY k.last_position, k.key""")
_OPEN = text("""SELECT first_position FROM append_keys WHERE last_position > :after ORDER BY last_position LIMIT 1""")
_CHAIN_AT = text("SELECT chain FROM append_keys WHERE last_position = :position LIMIT 1")


def keys_between(engine: Engine, after: int, upto: int) -> list[AppendKey]:
    """The keys whose last event is at a position in (after, upto], in order."""
    with read_connection(engine) as connection:
        rows = connection.execute(_KEYS, {"after": after, "upto": upto}).all()
    return [
        AppendKey(row[0], bytes(row[1]), Position(row[2]), Position(row[3]), _bytes(row[4]), _bytes(row[5]))
        for row in rows
    ]


def first_of_append(engine: Engine, after: Position) -> Position:
    """The first position of the append that spans `after` and the position after it; `after` + 1 if none does."""
    with read_connection(engine) as connection:
        first = connection.execute(_OPEN, {"after": after}).scalar()
    return Position(after + 1 if first is None else min(max(first, 1), after + 1))


def key_chain_at(engine: Engine, position: Position) -> bytes | None:
    """The chain value of the key whose last event is at a position; None if there is none."""
    with read_connection(engine) as connection:
        return _bytes(connection.execute(_CHAIN_AT, {"position": position}).scalar())


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def check_keys(engine: Engine, rows: Sequence[Verified]) -> list[Verified]:
    """Check the append keys that end within contiguous verified rows, which begin with the first event of an append.

    Returns the rows after the last of these keys. Raises BrokenChain with the first position of a key whose digest or
    chain value is wrong.
    """
    if not rows:
        return []
    start = rows[0][0].position
    done = 0
    for key in keys_between(engine, start - 1, rows[-1][0].position):
        if key.first >= start:  # other keys overlap, which is found between the tables
            _check_digest(key, rows[key.first - start : key.last - start + 1])
            _check_chain(key)
        done = key.last - start + 1
    return list(rows[done:])


def _check_digest(key: AppendKey, rows: Sequence[Verified]) -> None:
    streams = {row.stream for row, _ in rows}
    events = [EncodedEvent(row.type, row.schema_version, payload, row.digest) for row, payload in rows]
    actual = content_digest(streams.pop(), events).hex() if len(streams) == 1 else "one over several streams"
    if actual != key.digest.hex():
        raise BrokenChain(
            position=key.first, what="the digest of its append key", actual=key.digest.hex(), expected=actual
        )


def _check_chain(key: AppendKey) -> None:
    previous = GENESIS if key.first == START + 1 else key.previous
    expected = "one that follows the key before it" if previous is None else link_key(previous, key).hex()
    actual = "missing" if key.chain is None else key.chain.hex()
    if actual != expected:
        raise BrokenChain(position=key.first, what="the chain of its append key", actual=actual, expected=expected)
