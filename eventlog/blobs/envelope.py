"""A blob as it is stored: compressed where that helps, encrypted where it is a subject's. Pure."""

from __future__ import annotations

import base64
import json
import threading
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
"""In the order of the numbers they are stored as."""

_LEVEL = 9
_OWN = threading.local()
_MAGIC = b"FWB1"
_LENGTH = 4
HEADER_MOST = 1024
"""No header of a packed envelope is longer, its magic and length included."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A blob in its stored form. `size` is of the plain bytes, `subject` is a tag; without a body it was erased."""

    address: str
    media_type: str
    size: int
    encoding: Encoding
    subject: bytes | None
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Sealer:
    """How blobs of one subject are stored, or with None those of nobody."""

    tag: bytes | None = None
    keys: SubjectKeys | None = None

    def address(self, blob: Blob) -> str:
        """What a blob is named by."""
        return blob.digest if self.keys is None else encryption.address(self.keys, blob.media_type, blob.body)

    def envelope(self, blob: Blob, address: str) -> Envelope:
        """Its stored form."""
        import zstandard

        packed = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(blob.body)
        encoding: Encoding = "zstd" if len(packed) < len(blob.body) else "raw"
        body = packed if encoding == "zstd" else blob.body
        if self.keys is not None:
            body = encryption.encrypt(self.keys, address, body, _facts(encoding, len(blob.body), blob.media_type))
        return Envelope(address, blob.media_type, len(blob.body), encoding, self.tag, body)


def sealer(keys: Keys, subject: str | None) -> Sealer:
    """The sealer of a subject, its key made when it is the first time. Raises SubjectGone."""
    if subject is None:
        return Sealer()
    return Sealer(subject_tag(subject), encryption.derive_subject_keys(keys.secret(subject)))


def open_envelope(envelope: Envelope, keys: Keys) -> Blob:
    """The blob of a stored form, checked against its address. Raises BlobErased, BlobDamaged."""
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
        raise BlobDamaged(actual="impossible (they do not decrypt)", expected=envelope.address)
    return subject, body


def _decompress(envelope: Envelope, body: bytes) -> bytes:
    import zstandard

    try:
        if zstandard.frame_content_size(body) != envelope.size:
            raise BlobDamaged(actual="impossible (they are of another size)", expected=envelope.address)
        return _decompressor().decompress(body, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BlobDamaged(actual=f"impossible ({error})", expected=envelope.address) from error


def _decompressor() -> zstandard.ZstdDecompressor:
    """One for each thread: they are dear to make, and two threads may not share one."""
    import zstandard

    found: zstandard.ZstdDecompressor | None = getattr(_OWN, "decompressor", None)
    if found is None:
        found = _OWN.decompressor = zstandard.ZstdDecompressor()
    return found


def _facts(encoding: Encoding, size: int, media_type: str) -> bytes:
    return bytes([ENCODINGS.index(encoding)]) + size.to_bytes(8, "big") + media_type.encode()


def pack(envelope: Envelope) -> bytes:
    """One object: magic, length of the header, the header as JSON, the body. Any store of bytes will do."""
    header = json.dumps({**_entry(envelope), "erased": envelope.body is None}, separators=(",", ":")).encode()
    return _MAGIC + len(header).to_bytes(_LENGTH, "big") + header + (envelope.body or b"")


def unpack(address: str, packed: bytes) -> tuple[Envelope, int]:
    """The envelope of an object, or of its beginning, and where its body begins. Raises BlobDamaged."""
    start = len(_MAGIC) + _LENGTH
    end = start + int.from_bytes(packed[len(_MAGIC) : start], "big")
    try:
        if packed[: len(_MAGIC)] != _MAGIC:
            raise ValueError("it does not begin as one of ours")  # noqa: TRY301 damage has one answer, below
        entry = json.loads(packed[start:end])
        return _envelope(address, entry, None if entry["erased"] else packed[end:]), end
    except (LookupError, TypeError, ValueError) as error:
        raise BlobDamaged(actual=f"impossible (its header cannot be read: {error})", expected=address) from error


def envelope_json(envelope: Envelope) -> dict[str, object]:
    """A JSON object of an envelope, its body in base 64; null where it was erased."""
    body = None if envelope.body is None else base64.b64encode(envelope.body).decode()
    return {"blob": envelope.address, **_entry(envelope), "body": body}


def from_plain(entry: dict[str, Any]) -> Envelope:
    """The envelope of such an object. What is nobody's is checked against its address.

    A subject's can only be checked with its key. Raises BlobDamaged, and LookupError, TypeError or ValueError for what
    is no envelope.
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
