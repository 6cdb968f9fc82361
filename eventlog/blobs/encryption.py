"""Encryption of a subject's blobs: AES-256-GCM, addressed by HMAC-SHA256. Pure.

Three keys are derived from the subject's secret by HKDF, one for each use, so that output under one key reveals nothing
about another.

*Nonce*: not random, but an HMAC, under a separate key, of the address and the exact bytes to encrypt (another version
of the compression library may encode the same blob differently, so the address alone does not suffice). Equal nonces
therefore mean equal input and equal output, which reveals no more than the equal address. Two different inputs share a
nonce with probability n^2 / 2^97: 2^-33 for 4 * 10^9 blobs of one subject, the bound accepted for random nonces.

*Associated data*: address, encoding, size and media type, so that one row cannot be substituted for another.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

_MARK = 8
_NONCE = 12
OVERHEAD = _MARK + _NONCE + 16
"""Bytes that encryption adds: the key's mark, the nonce and the authentication tag."""


@dataclass(frozen=True, slots=True)
class SubjectKeys:
    """The keys derived from a subject's secret. `mark` identifies the secret without revealing it."""

    naming: bytes
    nonces: bytes
    cipher: bytes
    mark: bytes


def derive_subject_keys(secret: bytes) -> SubjectKeys:
    """Derive the keys from a secret."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    def expand(use: bytes, length: int = 32) -> bytes:
        return HKDFExpand(SHA256(), length, b"flywheel blobs 1: " + use).derive(secret)

    return SubjectKeys(expand(b"address"), expand(b"nonce"), expand(b"cipher"), expand(b"mark", _MARK))


def address(keys: SubjectKeys, media_type: str, body: bytes) -> str:
    """Address of a subject's blob: HMAC-SHA256 over media type and bytes, in hexadecimal."""
    kind = media_type.encode()
    return hmac.new(keys.naming, len(kind).to_bytes(4, "big") + kind + body, hashlib.sha256).hexdigest()


def encrypt(keys: SubjectKeys, name: str, body: bytes, facts: bytes) -> bytes:
    """The key's mark, the nonce and the ciphertext. `facts` are associated data: authenticated, not encrypted."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = hmac.new(keys.nonces, bytes.fromhex(name) + body, hashlib.sha256).digest()[:_NONCE]
    return keys.mark + nonce + AESGCM(keys.cipher).encrypt(nonce, body, bytes.fromhex(name) + facts)


def is_under(keys: SubjectKeys, encrypted: bytes) -> bool:
    """True if these keys encrypted the bytes; otherwise the key that did was destroyed."""
    return hmac.compare_digest(encrypted[:_MARK], keys.mark)


def decrypt(keys: SubjectKeys, name: str, encrypted: bytes, facts: bytes) -> bytes | None:
    """The plain bytes; None if ciphertext, facts or name were altered."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = encrypted[_MARK : _MARK + _NONCE]
    try:
        return AESGCM(keys.cipher).decrypt(nonce, encrypted[_MARK + _NONCE :], bytes.fromhex(name) + facts)
    except (InvalidTag, ValueError):
        return None
