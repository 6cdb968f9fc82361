"""Folders that are made beside their place, by one process at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def making_in(folder: Path, doing: str) -> Iterator[Path]:
    """An empty folder in another one, which is made if need be, for who waits until nobody else does the same there.

    What one that was killed left there goes first: nobody is at it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / f".{doing}.lock"):
        for left in folder.glob(f".{doing}-*"):
            shutil.rmtree(left, ignore_errors=True)  # another user's stays
        making = Path(tempfile.mkdtemp(prefix=f".{doing}-", dir=folder))
        try:
            yield making
        finally:
            shutil.rmtree(making, ignore_errors=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process holds a file; it is let go with the process, `kill -9` included."""
    held = _open_lock(lock)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _open_lock(lock: Path) -> int:
    """The file, for writing where it may be written, because NFS locks no other. It is not for all to open and hold."""
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT, 0o660)
    except PermissionError:
        return os.open(lock, os.O_RDONLY)
