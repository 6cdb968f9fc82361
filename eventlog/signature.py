"""A signed head states that a project's log had given chain values at a given position and time. Pure.

The chain value of the events covers every event up to its position, that of the append keys every key up to it. So a
signed head kept outside the database reveals later that the log was truncated or rewritten, or a key renamed, even if
the chains were recomputed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field

from .chain import canonical
from .errors import ForeignKey, ForeignLog, KeysRewritten, LogRewritten, LogTruncated, SignatureBroken
from .store import START, Position

Format = Literal["flywheel-signature-1", "flywheel-signature-2"]
WITHOUT_KEYS: Format = "flywheel-signature-1"
WITH_KEYS: Format = "flywheel-signature-2"

Hex32 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Hex64 = Annotated[str, Field(pattern="^[0-9a-f]{128}$")]


class Signed(BaseModel):
    """A signed head. `log` names the log by its chain at position 1; digests, key and signature are hexadecimal.

    `keys` is the chain value of the append keys; None in the first format, which does not cover them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Format
    project: str
    log: Hex32
    position: int = Field(ge=1)
    chain: Hex32
    keys: Hex32 | None = None
    at: str = Field(max_length=40)
    public_key: Hex32
    signature: Hex64

    def statement(self) -> bytes:
        """The canonical bytes that are signed: every field but the signature."""
        return canonical(self.model_dump(mode="json", exclude={"signature"}, exclude_none=True))


@dataclass(frozen=True, slots=True)
class LogHead:
    """The head of a log now. `chain_at` gives the chain value of any position up to the head.

    `key_chain_at` gives that of the append key whose last event is there, or None if it has none.
    """

    project: str
    head: Position
    chain_at: Callable[[Position], bytes]
    key_chain_at: Callable[[Position], bytes | None] = lambda _position: None


def sign(head: LogHead, at: datetime, key: Ed25519PrivateKey) -> Signed:
    """Sign the head of a non-empty log. `at` is the time stated in the signed head."""
    keys = head.key_chain_at(head.head)
    unsigned = Signed(
        format=WITHOUT_KEYS if keys is None else WITH_KEYS,
        project=head.project,
        log=head.chain_at(Position(1)).hex(),
        position=head.head,
        chain=head.chain_at(head.head).hex(),
        keys=None if keys is None else keys.hex(),
        at=at.isoformat(timespec="seconds"),
        public_key=key.public_key().public_bytes_raw().hex(),
        signature=bytes(64).hex(),
    )
    return unsigned.model_copy(update={"signature": key.sign(unsigned.statement()).hex()})


def check_signature(signed: Signed, trusted: Ed25519PublicKey) -> None:
    """Raise ForeignKey unless the trusted key is named, SignatureBroken unless the signature is valid."""
    raw = trusted.public_bytes_raw()
    if signed.public_key != raw.hex():
        raise ForeignKey(actual=key_fingerprint(bytes.fromhex(signed.public_key)), expected=key_fingerprint(raw))
    try:
        trusted.verify(bytes.fromhex(signed.signature), signed.statement())
    except InvalidSignature as error:
        raise SignatureBroken(position=signed.position, expected=key_fingerprint(raw)) from error


def check_log_head(signed: Signed, standing: LogHead) -> None:
    """Raise ForeignLog, LogTruncated, LogRewritten or KeysRewritten unless the log still contains the signed head."""
    if signed.project != standing.project:
        raise ForeignLog(actual=f"the log of the project {standing.project!r}", expected=f"that of {signed.project!r}")
    if standing.head > START and standing.chain_at(Position(1)).hex() != signed.log:
        raise ForeignLog(
            actual=f"a log whose first event has the chain {standing.chain_at(Position(1)).hex()}", expected=signed.log
        )
    if standing.head < signed.position:
        raise LogTruncated(actual=standing.head, expected=signed.position, at=signed.at)
    actual = standing.chain_at(Position(signed.position)).hex()
    if actual != signed.chain:
        raise LogRewritten(position=signed.position, actual=actual, expected=signed.chain, at=signed.at)
    if signed.keys is not None:
        keys = standing.key_chain_at(Position(signed.position))
        if keys is None or keys.hex() != signed.keys:
            actual = "missing" if keys is None else keys.hex()
            raise KeysRewritten(position=signed.position, actual=actual, expected=signed.keys, at=signed.at)


def key_fingerprint(public_key: bytes) -> str:
    """Fingerprint of a public key (32 bytes), for people to compare: `SHA256:` and base 64."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_key).digest()).decode().rstrip("=")
