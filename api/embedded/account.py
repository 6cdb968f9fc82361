"""The operating-system account of the server, because PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .errors import NeedsRoot, NoUnprivilegedAccount

Way = Literal["direct", "namespace", "copied"]

USERS = ("postgres", "nobody")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True)
class ServerAccount:
    """How to start a program: a command prefix, and the user to switch to, if any."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None


def how_to_run(uid: int, *, unshare_works: bool) -> Way:
    """Return how a user runs the server: directly, or root in a user namespace, or root on copies for another user."""
    if uid != 0:
        return "direct"
    return "namespace" if unshare_works else "copied"


def unshare_works(program: Path, folder: Path) -> bool:
    """Return True if a user namespace can be created and reaches the program and the folder. Tries it."""
    if shutil.which("unshare", path=ENVIRONMENT["PATH"]) is None:
        return False
    reach = ("/bin/sh", "-c", 'test -x "$0" && test -w "$1"', str(program), str(folder))
    return run_as(_namespace(), reach, cwd=Path("/")).returncode == 0


def unprivileged_user() -> str:
    """Return the name of an existing user without privileges.

    Raises NoUnprivilegedAccount when this system has none that we know.
    """
    existing = {entry.pw_name for entry in pwd.getpwall()}
    for user in USERS:
        if user in existing:
            return user
    raise NoUnprivilegedAccount(expected=", ".join(USERS))


def account(way: Way, user: str | None) -> ServerAccount:
    """Return the account of a home that was set up this way; `user` is named by the copied way only.

    Raises NeedsRoot when an ordinary user asks to become another.
    """
    if way == "namespace":
        return _namespace()
    if way == "direct" or user is None:
        return ServerAccount()
    if os.geteuid() != 0:
        raise NeedsRoot(user=user, actual=os.geteuid())
    entry = pwd.getpwnam(user)
    return ServerAccount(uid=entry.pw_uid, gid=entry.pw_gid)


def run_as(
    account: ServerAccount, command: Sequence[str], *, cwd: Path, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end under the account, with a minimal environment and detached from the terminal."""
    return subprocess.run(  # noqa: S603 - the programs are the wheel's, unshare and sh, with arguments of ours
        [*account.prefix, *command],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=timeout_s,
        start_new_session=True,
        user=account.uid,
        group=account.gid,
        extra_groups=None if account.uid is None else [],
        umask=0o077,
    )


def own(path: Path, account: ServerAccount) -> None:
    """Change the owner of a file or folder to the account, if that is another user."""
    if account.uid is not None and account.gid is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _namespace() -> ServerAccount:
    return ServerAccount(prefix=("unshare", "--user", "--map-user=1000", "--map-group=1000", "--"))
