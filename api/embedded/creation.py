"""Set up a home: choose and record how to run the server, and create the data folder atomically."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from . import binaries, configuration
from .account import ServerAccount, Way, account, how_to_run, own, run_as, unprivileged_user, unshare_works
from .claim import own_folder, shared_folder
from .errors import InitFailed, OtherMajorVersion, PasswordsMissing
from .layout import STORES, Layout, folder, home_digest
from .record import (
    ADMIN,
    Passwords,
    Setup,
    new_passwords,
    passwords_file,
    read_passwords,
    read_setup,
    sync_folder,
    write_private,
    write_setup,
)

INITDB = (
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--auth=scram-sha-256",
    f"--username={ADMIN}",
)


def choose_setup(home: Path, way: Way | None) -> Setup:
    """Return how the home was set up, or choose how to set it up. The folder for sockets is chosen elsewhere."""
    known = read_setup(home)
    if known is not None:
        return known
    if way is None:
        works = os.geteuid() == 0 and unshare_works(binaries.binaries_folder() / "bin" / "postgres", folder(home))
        way = how_to_run(os.geteuid(), unshare_works=works)
    if way != "copied":
        return Setup(way, store=".", sockets="run")
    store = STORES / home_digest(home)
    return Setup(way, store=str(store), sockets=str(store / "run"), user=unprivileged_user())


def reachable_binaries(setup: Setup, layout: Layout) -> Path:
    """Return a folder of binaries that the server's account can access; copies them if needed."""
    source = binaries.binaries_folder()
    if setup.way != "copied":
        return source
    shared_folder(STORES)
    shared_folder(layout.store)
    return binaries.copy_binaries(source, layout.store)


def settled_sockets(setup: Setup, layout: Layout, place: Path) -> Layout:
    """Create the folder for the socket and record it, so that every process finds the server there."""
    own_folder(place, account(setup.way, setup.user))
    inside = setup.way != "copied" and place.parent == layout.store
    wanted = Setup(setup.way, setup.store, place.name if inside else str(place), setup.user)
    if read_setup(layout.home) != wanted:
        write_setup(layout.home, wanted)
    return wanted.layout(layout.home)


def existing_passwords(layout: Layout) -> Passwords | None:
    """Return the passwords of a home that has its data folder, None when it has none yet.

    Raises OtherMajorVersion when the data folder is not one of ours, PasswordsMissing when only they are lost.
    """
    if not layout.data.exists():
        return None
    version = data_version(layout.data)
    if version != binaries.MAJOR:
        raise OtherMajorVersion(data=layout.data, actual=version or "no known version", expected=binaries.MAJOR)
    passwords = read_passwords(layout.home)
    if passwords is None:
        raise PasswordsMissing(data=layout.data, expected=passwords_file(layout.home))
    return passwords


def data_version(data: Path) -> str | None:
    """Return the major version of a data folder; None if it does not state one."""
    try:
        return (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return None


def create(installed: Path, layout: Layout, runs_as: ServerAccount, deadline: float) -> Passwords:
    """Create the data folder beside its final place and move it there once it is complete; return the new passwords.

    Raises InitFailed with what initdb said.
    """
    partial, secret = layout.store / "data.new", layout.store / "initdb.password"
    if partial.exists():
        shutil.rmtree(partial)
    own_folder(partial, runs_as)
    passwords = read_passwords(layout.home) or new_passwords(layout.home)
    try:
        write_private(secret, passwords.of(ADMIN))
        own(secret, runs_as)
        _initdb(
            (str(installed / "bin" / "initdb"), f"--pgdata={partial}", f"--pwfile={secret}"), layout, runs_as, deadline
        )
    finally:
        secret.unlink(missing_ok=True)
    with (partial / "postgresql.conf").open("a") as file:
        file.write(configuration.INCLUDE)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(layout.data)
    sync_folder(layout.store)
    return passwords


def _initdb(command: tuple[str, ...], layout: Layout, runs_as: ServerAccount, deadline: float) -> None:
    try:
        made = run_as(runs_as, (*command, *INITDB), cwd=layout.store, timeout_s=max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise InitFailed(data=layout.data, actual="took too long", tail="(nothing)") from error
    if made.returncode != 0:
        raise InitFailed(data=layout.data, actual=f"ended with {made.returncode}", tail=made.stderr.strip())
