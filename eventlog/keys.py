"""Subject keys: one secret for each subject, kept outside the log, its exports and the database.

A subject's blobs are encrypted, so destroying its key erases them. Back up keys apart from the data, and destroy an
erased subject's key in those backups too.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .disk import flush_to_disk
from .errors import KeyDamaged, KeysExposed, KeysUnset, SubjectGone

SECRET_BYTES = 32
_OTHERS = 0o077


def subject_tag(subject: str) -> bytes:
    """SHA-256 tag of a subject, stored in place of its name: 32 bytes, the same in every store.

    The hash is unkeyed, so a subject's bytes can still be found and removed after its key is destroyed. It hides the
    name from a reader but not from guessing, so subjects must be pseudonyms.
    """
    return hashlib.sha256(b"flywheel subject\0" + subject.encode("utf-8", "surrogatepass")).digest()


class Keys(Protocol):
    """A store of subject secrets."""

    def secret(self, subject: str) -> bytes:
        """The subject's 32 secret bytes, generated on first use. Raises SubjectGone after they were destroyed."""
        ...

    def find(self, tag: bytes) -> bytes | None:
        """The secret of the subject with this tag; None if it was destroyed or is not in this store."""
        ...

    def destroy(self, subject: str) -> None:
        """Make the secret unrecoverable, and never generate another one for the subject. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class NoKeys:
    """The key store if none is configured: only blobs without a subject can be put and read."""

    def secret(self, subject: str) -> bytes:
        """See Keys.secret. Raises KeysUnset."""
        raise KeysUnset(actual=subject)

    def find(self, tag: bytes) -> bytes | None:  # noqa: ARG002 the contract's
        """See Keys.find."""
        return None

    def destroy(self, subject: str) -> None:
        """See Keys.destroy. Raises KeysUnset."""
        raise KeysUnset(actual=subject)


class MemoryKeys:
    """Keys in one process's memory, for tests and as the reference implementation."""

    def __init__(self) -> None:
        self._secrets: dict[bytes, bytes | None] = {}
        self._lock = threading.Lock()

    def secret(self, subject: str) -> bytes:
        """See Keys.secret."""
        with self._lock:
            found = self._secrets.setdefault(subject_tag(subject), secrets.token_bytes(SECRET_BYTES))
        if found is None:
            raise SubjectGone(actual=subject)
        return found

    def find(self, tag: bytes) -> bytes | None:
        """See Keys.find."""
        return self._secrets.get(tag)

    def destroy(self, subject: str) -> None:
        """See Keys.destroy."""
        with self._lock:
            self._secrets[subject_tag(subject)] = None


@dataclass(frozen=True, slots=True)
class FolderKeys:
    """Keys as files of one folder (0700, files 0600), each named by its subject's tag. Several processes may share it.

    A destroyed key leaves a tombstone, `<tag>.gone`, created before the key file is overwritten. A secret is valid only
    if there is no tombstone *after* it was read, so a half-overwritten file is never used as a key. Nothing is cached
    between calls, so a key destroyed by another process is gone at once. Raises KeysExposed, KeyDamaged, OSError.
    """

    folder: Path

    def secret(self, subject: str) -> bytes:
        """See Keys.secret."""
        tag = subject_tag(subject)
        if not self._tombstone(tag).exists() and self._read(tag) is None:
            self._make(tag)
        found = self._read(tag)
        if self._tombstone(tag).exists():
            self._shred(tag)
            raise SubjectGone(actual=subject)
        if found is None:
            raise KeyDamaged(file=self._file(tag), actual="no file", expected=SECRET_BYTES)
        return self._whole(tag, found)

    def find(self, tag: bytes) -> bytes | None:
        """See Keys.find."""
        found = self._read(tag)
        if found is None or self._tombstone(tag).exists():
            return None
        return self._whole(tag, found)

    def destroy(self, subject: str) -> None:
        """See Keys.destroy. The file is overwritten and unlinked.

        Does not reach old blocks kept by the file system or the disk, nor backups of the folder.
        """
        tag = subject_tag(subject)
        self._private()
        descriptor = os.open(self._tombstone(tag), os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        flush_to_disk(self.folder)
        self._shred(tag)

    def _file(self, tag: bytes) -> Path:
        return self.folder / tag.hex()

    def _tombstone(self, tag: bytes) -> Path:
        return self.folder / f"{tag.hex()}.gone"

    def _read(self, tag: bytes) -> bytes | None:
        try:
            found = self._file(tag).read_bytes()
        except FileNotFoundError:
            return None
        self._check()
        return found

    def _whole(self, tag: bytes, found: bytes) -> bytes:
        if len(found) != SECRET_BYTES:
            raise KeyDamaged(file=self._file(tag), actual=f"{len(found)} bytes", expected=SECRET_BYTES)
        return found

    def _make(self, tag: bytes) -> None:
        """Create the key file by an atomic link that never replaces one: of two concurrent creators one wins."""
        self._private()
        descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=".new-")
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(secrets.token_bytes(SECRET_BYTES))
                out.flush()
                os.fsync(out.fileno())
            try:
                os.link(name, self._file(tag))
            except FileExistsError:
                return
        finally:
            Path(name).unlink()
        flush_to_disk(self.folder)

    def _shred(self, tag: bytes) -> None:
        try:
            with self._file(tag).open("r+b") as out:
                out.write(bytes(SECRET_BYTES))
                out.flush()
                os.fsync(out.fileno())
            self._file(tag).unlink()
        except FileNotFoundError:
            return
        flush_to_disk(self.folder)

    def _private(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check()

    def _check(self) -> None:
        mode = self.folder.stat().st_mode
        if mode & _OTHERS:
            raise KeysExposed(folder=self.folder, actual=f"{mode & 0o777:04o}", expected="0700")
