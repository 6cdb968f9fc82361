"""Claim a home: create its folder, check its owner, hold its lock."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .account import ServerAccount, own
from .errors import DatabaseBusy, ForeignHome, HomeNotWritable, UnsafeFolder
from .layout import folder, lock_file
from .postmaster import POLL_S


def owns_home(home: Path) -> bool:
    """Return True if the home has a database folder that belongs to this user.

    Raises ForeignHome when it belongs to another user, HomeNotWritable when it is out of reach.
    """
    try:
        owner = folder(home).stat().st_uid
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HomeNotWritable(home=home, actual=error.strerror) from error
    if owner != os.geteuid():
        raise ForeignHome(home=home, expected=owner, actual=os.geteuid())
    return True


def claim_home(home: Path) -> None:
    """Create the home and its private folder where they are missing.

    Raises HomeNotWritable when they cannot be made or written, ForeignHome when they are another user's.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder(home).mkdir(mode=0o700, exist_ok=True)
        if owns_home(home):
            folder(home).chmod(0o700)
        lock_file(home).touch(mode=0o600)
    except OSError as error:
        raise HomeNotWritable(home=home, actual=error.strerror) from error


@contextmanager
def hold_home_lock(home: Path, deadline: float) -> Iterator[None]:
    """Hold the home's lock. It is released when the process dies.

    Raises DatabaseBusy at the deadline.
    """
    began = time.monotonic()
    with lock_file(home).open("r+b") as file:
        while not _took(file.fileno()):
            if time.monotonic() > deadline:
                raise DatabaseBusy(lock=lock_file(home), timeout_s=time.monotonic() - began)
            time.sleep(POLL_S)
        yield


def own_folder(place: Path, account: ServerAccount) -> None:
    """Create a folder that only the account can access, or check that the existing one is such a folder.

    Raises UnsafeFolder when somebody else made it.
    """
    if not os.path.lexists(place):
        place.mkdir(mode=0o700)
        own(place, account)
    expected = os.geteuid() if account.uid is None else account.uid
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != expected or found.st_mode & 0o077:
        actual = f"{stat.filemode(found.st_mode)} of user id {found.st_uid}"
        raise UnsafeFolder(folder=place, actual=actual, expected=f"a folder of user id {expected} with mode 0700")


def shared_folder(place: Path) -> None:
    """Create a folder owned by root that everybody may traverse, or check that only root can write the existing one.

    Raises UnsafeFolder when others may write it.
    """
    if not os.path.lexists(place):
        place.mkdir()
        place.chmod(0o755)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        actual = f"{stat.filemode(found.st_mode)} of user id {found.st_uid}"
        raise UnsafeFolder(folder=place, actual=actual, expected="a folder of root's that only root may write")


def _took(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
