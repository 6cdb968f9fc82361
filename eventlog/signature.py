"""A signed head states that a project's log had a given chain value at a given position and time. Pure.

The chain value covers every event up to its position, so a signed head kept outside the database reveals later that
the log was truncated or rewritten, even if the chain was recomputed.
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
from .errors import ForeignKey, ForeignLog, LogRewritten, LogTruncated, SignatureBroken
from .store import START, Position

FORMAT: Literal["flywheel-signature-1"] = "flywheel-signature-1"

Hex32 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Hex64 = Annotated[str, Field(pattern="^[0-9a-f]{128}$")]


class Signed(BaseModel):
    """A signed head. `log` names the log by its chain at position 1; digests, key and signature are hexadecimal."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["flywheel-signature-1"]
    project: str
    log: Hex32
    position: int = Field(ge=1)
    chain: Hex32
    at: str = Field(max_length=40)
    public_key: Hex32
    signature: Hex64

    def statement(self) -> bytes:
        """The canonical bytes that are signed: every field but the signature."""
        return canonical(self.model_dump(mode="json", exclude={"signature"}))


@dataclass(frozen=True, slots=True)
class LogHead:
    """The head of a log now. `chain_at` gives the chain value of any position up to the head."""

    project: str
    head: Position
    chain_at: Callable[[Position], bytes]


def sign(head: LogHead, at: datetime, key: Ed25519PrivateKey) -> Signed:
    """Sign the head of a non-empty log. `at` is the time stated in the signed head."""
    unsigned = Signed(
        format=FORMAT,
        project=head.project,
        log=head.chain_at(Position(1)).hex(),
        position=head.head,
        chain=head.chain_at(head.head).hex(),
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
    """Raise ForeignLog, LogTruncated or LogRewritten unless the log still contains the signed head."""
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


def key_fingerprint(public_key: bytes) -> str:
    """Fingerprint of a public key (32 bytes), for people to compare: `SHA256:` and base 64."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_key).digest()).decode().rstrip("=")
