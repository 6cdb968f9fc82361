"""A subject's bytes under the subject's key: AES-256-GCM, addressed by HMAC-SHA256. Pure.

Three keys are drawn from the secret by HKDF, one for each use, so that nothing said under one of them helps with
another.

*The nonce* is not random: it is an HMAC, under a key of its own, of the address and of exactly the bytes that are
encrypted (another version of the library may encode the same blob otherwise, so the address alone would not do). So
equal nonces mean equal input and equal output, which says no more than the equal address does. Two different inputs
meet in one nonce with probability n^2 / 2^97: 2^-33 for four thousand million blobs of one subject, the bound that is
accepted for random nonces.

*What is authenticated besides*: address, encoding, size and media type, so a row cannot pass for another.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

_MARK = 8
_NONCE = 12
OVERHEAD = _MARK + _NONCE + 16
"""What encryption adds: the key's mark, the nonce and the authentication tag."""


@dataclass(frozen=True, slots=True)
class SubjectKeys:
    """What is drawn from a subject's secret. `mark` tells secrets apart without telling anything of them."""

    naming: bytes
    nonces: bytes
    cipher: bytes
    mark: bytes


def derive_subject_keys(secret: bytes) -> SubjectKeys:
    """The keys of a secret."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    def expand(use: bytes, length: int = 32) -> bytes:
        return HKDFExpand(SHA256(), length, b"flywheel blobs 1: " + use).derive(secret)

    return SubjectKeys(expand(b"address"), expand(b"nonce"), expand(b"cipher"), expand(b"mark", _MARK))


def address(keys: SubjectKeys, media_type: str, body: bytes) -> str:
    """HMAC-SHA256 over media type and bytes, in hexadecimal."""
    kind = media_type.encode()
    return hmac.new(keys.naming, len(kind).to_bytes(4, "big") + kind + body, hashlib.sha256).hexdigest()


def encrypt(keys: SubjectKeys, name: str, body: bytes, facts: bytes) -> bytes:
    """The key's mark, the nonce and the ciphertext. `facts` are authenticated with it."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = hmac.new(keys.nonces, bytes.fromhex(name) + body, hashlib.sha256).digest()[:_NONCE]
    return keys.mark + nonce + AESGCM(keys.cipher).encrypt(nonce, body, bytes.fromhex(name) + facts)


def is_under(keys: SubjectKeys, encrypted: bytes) -> bool:
    """Whether this key encrypted it; otherwise its key was another one and is gone."""
    return hmac.compare_digest(encrypted[:_MARK], keys.mark)


def decrypt(keys: SubjectKeys, name: str, encrypted: bytes, facts: bytes) -> bytes | None:
    """The bytes; None where ciphertext, facts or name were changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = encrypted[_MARK : _MARK + _NONCE]
    try:
        return AESGCM(keys.cipher).decrypt(nonce, encrypted[_MARK + _NONCE :], bytes.fromhex(name) + facts)
    except (InvalidTag, ValueError):
        return None
