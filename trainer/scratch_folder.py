"""Temporary folders for work that only one process may do at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(folder: Path, doing: str) -> Iterator[Path]:
    """Yield an empty temporary folder inside `folder`, holding a lock on `doing` there; `folder` is created if missing.

    Leftovers of killed processes are removed first, which is safe under the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / f".{doing}.lock"):
        for left in folder.glob(f".{doing}-*"):
            shutil.rmtree(left, ignore_errors=True)  # another user's folder stays
        making = Path(tempfile.mkdtemp(prefix=f".{doing}-", dir=folder))
        try:
            yield making
        finally:
            shutil.rmtree(making, ignore_errors=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold an exclusive file lock, waiting for it. It is released when the process ends, even by `kill -9`."""
    held = _open_lock(lock)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _open_lock(lock: Path) -> int:
    """Open the lock file, for writing if permitted, because NFS needs that for a lock. Other users have no access."""
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT, 0o660)
    except PermissionError:
        return os.open(lock, os.O_RDONLY)
