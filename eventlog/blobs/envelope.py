"""The stored form of a blob: compressed if that makes it smaller, encrypted if it belongs to a subject. Pure."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..errors import BlobDamaged, BlobErased
from ..keys import Keys, NoKeys, subject_tag
from . import encryption
from .contract import Blob, is_address
from .encryption import SubjectKeys

if TYPE_CHECKING:
    import zstandard

Encoding = Literal["raw", "zstd"]

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
"""All encodings; the index in this tuple is the stored number."""

_LEVEL = 3
"""Level 9 took 5 times as long for the spans of a trace, which were 3 % smaller (messages: 4 times, 2 %)."""
MANY = 2**18
"""Bytes from which on a thread for each core is worth its start."""

_OWN = threading.local()
_MAGIC = b"FWB1"
_LENGTH = 4
HEADER_MOST = 1024
"""Maximum size of a packed envelope's header in bytes, magic and length included."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A blob in its stored form. `size` counts the plain bytes, `subject` is a tag; a body of None means erased."""

    address: str
    media_type: str
    size: int
    encoding: Encoding
    subject: bytes | None
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Sealer:
    """Encodes the blobs of one subject for storage; with None, blobs without a subject."""

    tag: bytes | None = None
    keys: SubjectKeys | None = None

    def address(self, blob: Blob) -> str:
        """Address of a blob."""
        return blob.digest if self.keys is None else encryption.address(self.keys, blob.media_type, blob.body)

    def envelope(self, blob: Blob, address: str) -> Envelope:
        """The stored form of a blob."""
        return self._envelope(blob, address, _compressor().compress(blob.body))

    def envelopes(self, named: Mapping[str, Blob]) -> Iterator[Envelope]:
        """The stored forms of blobs by address. Many are compressed by all cores at once."""
        bodies = [blob.body for blob in named.values()]
        if sum(map(len, bodies)) < MANY:
            yield from (self.envelope(blob, address) for address, blob in named.items())
            return
        packed = _compressor().multi_compress_to_buffer(bodies, threads=-1)  # type: ignore[arg-type]  # list is invariant
        for place, (address, blob) in enumerate(named.items()):
            yield self._envelope(blob, address, packed[place].tobytes())

    def _envelope(self, blob: Blob, address: str, packed: bytes) -> Envelope:
        encoding: Encoding = "zstd" if len(packed) < len(blob.body) else "raw"
        body = packed if encoding == "zstd" else blob.body
        if self.keys is not None:
            body = encryption.encrypt(self.keys, address, body, _facts(encoding, len(blob.body), blob.media_type))
        return Envelope(address, blob.media_type, len(blob.body), encoding, self.tag, body)


def sealer(keys: Keys, subject: str | None) -> Sealer:
    """The sealer of a subject. Generates the subject's key on first use. Raises SubjectGone."""
    if subject is None:
        return Sealer()
    return Sealer(subject_tag(subject), encryption.derive_subject_keys(keys.secret(subject)))


def open_envelope(envelope: Envelope, keys: Keys) -> Blob:
    """Decrypt and decompress a stored form, and verify it against its address. Raises BlobErased, BlobDamaged."""
    subject, body = _decrypt(envelope, keys)
    plain = body if envelope.encoding == "raw" else _decompress(envelope, body)
    blob = Blob(envelope.media_type, plain)
    actual = Sealer(envelope.subject, subject).address(blob)
    if actual != envelope.address or len(plain) != envelope.size:
        raise BlobDamaged(actual=actual, expected=envelope.address)
    return blob


def _decrypt(envelope: Envelope, keys: Keys) -> tuple[SubjectKeys | None, bytes]:
    if envelope.body is None:
        raise BlobErased(actual=envelope.address)
    if envelope.subject is None:
        return None, envelope.body
    secret = keys.find(envelope.subject)
    subject = None if secret is None else encryption.derive_subject_keys(secret)
    if subject is None or not encryption.is_under(subject, envelope.body):
        raise BlobErased(actual=envelope.address)
    facts = _facts(envelope.encoding, envelope.size, envelope.media_type)
    body = encryption.decrypt(subject, envelope.address, envelope.body, facts)
    if body is None:
        raise BlobDamaged(actual="impossible to compute (they do not decrypt)", expected=envelope.address)
    return subject, body


def _decompress(envelope: Envelope, body: bytes) -> bytes:
    import zstandard

    try:
        if zstandard.frame_content_size(body) != envelope.size:
            raise BlobDamaged(actual="impossible to compute (their size is wrong)", expected=envelope.address)
        return _decompressor().decompress(body, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BlobDamaged(actual=f"impossible to compute ({error})", expected=envelope.address) from error


def _compressor() -> zstandard.ZstdCompressor:
    """The thread's compressor. A new one for each message of a kilobyte takes a third of the time longer."""
    import zstandard

    found: zstandard.ZstdCompressor | None = getattr(_OWN, "compressor", None)
    if found is None:
        found = _OWN.compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    return found


def _decompressor() -> zstandard.ZstdDecompressor:
    """The thread's decompressor: creating one is expensive, and threads cannot share one."""
    import zstandard

    found: zstandard.ZstdDecompressor | None = getattr(_OWN, "decompressor", None)
    if found is None:
        found = _OWN.decompressor = zstandard.ZstdDecompressor()
    return found


def _facts(encoding: Encoding, size: int, media_type: str) -> bytes:
    return bytes([ENCODINGS.index(encoding)]) + size.to_bytes(8, "big") + media_type.encode()


def pack(envelope: Envelope) -> bytes:
    """An envelope as one byte string for an object store: magic, header length, header as JSON, body."""
    header = json.dumps({**_entry(envelope), "erased": envelope.body is None}, separators=(",", ":")).encode()
    return _MAGIC + len(header).to_bytes(_LENGTH, "big") + header + (envelope.body or b"")


def unpack(address: str, packed: bytes) -> tuple[Envelope, int]:
    """The envelope of a packed object or of its first bytes, and the offset of its body. Raises BlobDamaged."""
    start = len(_MAGIC) + _LENGTH
    end = start + int.from_bytes(packed[len(_MAGIC) : start], "big")
    try:
        if packed[: len(_MAGIC)] != _MAGIC:
            raise ValueError("it lacks the magic FWB1")  # noqa: TRY301 caught below with the other damage
        entry = json.loads(packed[start:end])
        return _envelope(address, entry, None if entry["erased"] else packed[end:]), end
    except (LookupError, TypeError, ValueError) as error:
        raise BlobDamaged(actual=f"impossible to compute (bad header: {error})", expected=address) from error


def envelope_json(envelope: Envelope) -> dict[str, object]:
    """An envelope as a JSON object, its body in base 64, or null if it was erased."""
    body = None if envelope.body is None else base64.b64encode(envelope.body).decode()
    return {"blob": envelope.address, **_entry(envelope), "body": body}


def from_plain(entry: dict[str, Any]) -> Envelope:
    """The envelope of an object made by envelope_json. Without a subject, it is verified against its address.

    A subject's blob can only be verified with its key, so it is not. Raises BlobDamaged, and LookupError, TypeError or
    ValueError for an object that is not an envelope.
    """
    body = None if entry["body"] is None else base64.b64decode(entry["body"], validate=True)
    envelope = _envelope(entry["blob"], entry, body)
    if envelope.subject is None:
        if body is None:
            raise ValueError(f"the blob {envelope.address} has neither bytes nor a subject")
        open_envelope(envelope, NoKeys())
    return envelope


def _entry(envelope: Envelope) -> dict[str, object]:
    return {
        "media_type": envelope.media_type,
        "size": envelope.size,
        "encoding": envelope.encoding,
        "subject": None if envelope.subject is None else envelope.subject.hex(),
    }


def _envelope(address: str, entry: dict[str, Any], body: bytes | None) -> Envelope:
    media_type, size, encoding, subject = (entry[name] for name in ("media_type", "size", "encoding", "subject"))
    if not (isinstance(media_type, str) and isinstance(size, int) and size >= 0 and is_address(address)):
        raise ValueError(f"media type {media_type!r} and size {size!r} of {address!r}")
    if not (subject is None or (isinstance(subject, str) and is_address(subject))):
        raise ValueError(f"subject {subject!r}")
    tag = None if subject is None else bytes.fromhex(subject)
    return Envelope(address, media_type, size, ENCODINGS[ENCODINGS.index(encoding)], tag, body)
