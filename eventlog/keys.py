"""One secret for each subject, kept outside the log, its exports and the database: destroying it erases.

Whoever can read a blob store and not its keys can read no subject's bytes. So keys are backed up apart from the data,
and a destroyed key must be destroyed in those backups too.
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

from .errors import KeyDamaged, KeysExposed, KeysUnset, SubjectGone

SECRET_BYTES = 32
_OTHERS = 0o077


def subject_tag(subject: str) -> bytes:
    """What stands for a subject where its name is not written: 32 bytes, the same everywhere.

    It is a hash without a key, so that bytes can still be found and removed once the key is gone. It hides the name
    from a reader, not from one who guesses names: subjects are pseudonyms.
    """
    return hashlib.sha256(b"flywheel subject\0" + subject.encode("utf-8", "surrogatepass")).digest()


class Keys(Protocol):
    """Where the subjects' secrets are."""

    def secret(self, subject: str) -> bytes:
        """The subject's 32 secret bytes, made when first asked for. Raises SubjectGone once they were destroyed."""
        ...

    def find(self, tag: bytes) -> bytes | None:
        """The secret of the subject with this tag; None where it was destroyed or is not here."""
        ...

    def destroy(self, subject: str) -> None:
        """Make the secret unrecoverable, and never give the subject another one. Doing it again is harmless."""
        ...


@dataclass(frozen=True, slots=True)
class NoKeys:
    """Keys where none are configured: blobs without a subject alone can be put and read."""

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
    """Keys in one process, for tests and for reading along."""

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

    A destroyed key leaves a tombstone, `<tag>.gone`, which is made first. So a secret counts only while there is no
    tombstone *after* it was read: bytes of a half-overwritten file are never taken for a key. Nothing is remembered
    between calls, so a key that another process destroys is gone here at once. Raises KeysExposed, KeyDamaged, OSError.
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

        Old blocks that a file system or a disk keeps, and backups of the folder, are out of its reach.
        """
        tag = subject_tag(subject)
        self._private()
        descriptor = os.open(self._tombstone(tag), os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._sync()
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
        """A link is made whole or not at all, and only where there is no key yet: of two makers one wins."""
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
        self._sync()

    def _shred(self, tag: bytes) -> None:
        try:
            with self._file(tag).open("r+b") as out:
                out.write(bytes(SECRET_BYTES))
                out.flush()
                os.fsync(out.fileno())
            self._file(tag).unlink()
        except FileNotFoundError:
            return
        self._sync()

    def _private(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check()

    def _check(self) -> None:
        mode = self.folder.stat().st_mode
        if mode & _OTHERS:
            raise KeysExposed(folder=self.folder, actual=f"{mode & 0o777:04o}", expected="0700")

    def _sync(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
