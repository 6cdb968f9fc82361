"""The embedded PostgreSQL of a home: up, down, status and its endpoints."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psycopg

from . import postmaster
from .account import Way, account
from .claim import claim_home, hold_home_lock, owns_home
from .configuration import configuration
from .creation import choose_setup, create, data_version, existing_passwords, reachable_binaries, settled_sockets
from .errors import StartFailed, Unreachable
from .layout import PORT, Layout, sockets
from .record import APP, Endpoints, Passwords, Setup, read_passwords, read_setup, recorded_endpoints, write_private
from .roles import connect_as, ensure_roles

STOP_TIMEOUT_S = 300.0
ASK_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Status:
    """Status of a home's server. `version` is exact while it runs, else the major version of its data folder."""

    running: bool
    pid: int | None
    version: str | None
    data: Path
    sockets: Path
    port: int
    started_at: datetime | None


def up(home: Path, *, timeout_s: float = 300.0, way: Way | None = None) -> Endpoints:
    """Set up the home's database if needed, start it if it is not running, and return its endpoints.

    `way` says how root runs the server of a new home; an existing home keeps its way.

    Raises HomeNotWritable, ForeignHome, BinariesMissing, OtherMajorVersion, PasswordsMissing, DamagedFile,
    DatabaseBusy, InitFailed, StartFailed, StillStarting, StillStopping, Unreachable, UnsafeFolder, SocketPathUnusable,
    NoUnprivilegedAccount or NeedsRoot.
    """
    home, deadline = home.resolve(), time.monotonic() + timeout_s
    claim_home(home)
    if not _answers(home, deadline):
        with hold_home_lock(home, deadline):
            _bring_up(home, way, deadline)
    return recorded_endpoints(home)


def down(home: Path) -> bool:
    """Stop the home's server by a fast shutdown. Returns True if it was running.

    Raises ForeignHome, HomeNotWritable, DatabaseBusy, DamagedFile or StillStopping.
    """
    home, deadline = home.resolve(), time.monotonic() + STOP_TIMEOUT_S
    if not owns_home(home):
        return False
    claim_home(home)
    with hold_home_lock(home, deadline):
        layout = _layout(home)
        found = postmaster.find_server(layout.data)
        if found is None:
            return False
        postmaster.stop(found.pid, layout, deadline)
        if layout.sockets.parent != layout.store:
            with suppress(OSError):
                layout.sockets.rmdir()
        return True


def status(home: Path) -> Status:
    """Return the status of the home's server. Changes nothing.

    Raises ForeignHome, HomeNotWritable or DamagedFile.
    """
    home = home.resolve()
    owns_home(home)
    layout, passwords = _layout(home), read_passwords(home)
    found, version = postmaster.find_server(layout.data), data_version(layout.data)
    if found is not None and found.ready and passwords is not None:
        deadline = time.monotonic() + ASK_TIMEOUT_S
        with suppress(psycopg.OperationalError), connect_as(APP, passwords, layout, deadline) as application:
            major, minor = divmod(application.info.server_version, 10_000)
            version = f"{major}.{minor}"
    return Status(
        running=found is not None,
        pid=found.pid if found else None,
        version=version,
        data=layout.data,
        sockets=layout.sockets,
        port=PORT,
        started_at=found.started_at if found else None,
    )


def endpoints(home: Path) -> Endpoints:
    """Return the URLs of the home's database. Starts nothing.

    Raises NeverSetUp, ForeignHome, HomeNotWritable or DamagedFile.
    """
    home = home.resolve()
    owns_home(home)
    return recorded_endpoints(home)


def _layout(home: Path) -> Layout:
    return (read_setup(home) or Setup("direct", ".", "run")).layout(home)


def _answers(home: Path, deadline: float) -> bool:
    """Return True if the server runs and accepts the application, so that there is nothing to do."""
    layout, passwords = _layout(home), read_passwords(home)
    found = postmaster.find_server(layout.data)
    if passwords is None or found is None or not found.ready:
        return False
    return _refusal(passwords, layout, deadline) is None


def _bring_up(home: Path, way: Way | None, deadline: float) -> None:
    setup = choose_setup(home, way)
    layout = setup.layout(home)
    passwords = existing_passwords(layout)
    found = postmaster.find_server(layout.data)
    if passwords is None or found is None or not postmaster.await_ready(found.pid, layout, deadline):
        layout, passwords = _start(setup, layout, passwords, deadline)
    if _refusal(passwords, layout, deadline) is None:
        return
    ensure_roles(passwords, layout, deadline)
    refusal = _refusal(passwords, layout, deadline)
    if refusal is not None:
        raise Unreachable(data=layout.data, role=APP, actual=refusal, log=layout.log, tail=postmaster.tail(layout.log))


def _start(setup: Setup, layout: Layout, passwords: Passwords | None, deadline: float) -> tuple[Layout, Passwords]:
    """Start the server. Without passwords there is no data folder yet, so it is created first."""
    runs_as, installed = account(setup.way, setup.user), reachable_binaries(setup, layout)
    place = sockets(layout.home, layout.store, Path(tempfile.gettempdir()).resolve())
    layout = settled_sockets(setup, layout, place)
    passwords = passwords or create(installed, layout, runs_as, deadline)
    postmaster.remove_leftovers(layout, deadline)
    write_private(layout.configuration, configuration(layout.sockets), 0o600 if runs_as.uid is None else 0o644)
    pid = postmaster.launch(installed, layout, runs_as)
    if not postmaster.await_ready(pid, layout, deadline):
        raise StartFailed(data=layout.data, log=layout.log, tail=postmaster.tail(layout.log))
    ensure_roles(passwords, layout, deadline)  # at every start, because an older version may have granted more
    return layout, passwords


def _refusal(passwords: Passwords, layout: Layout, deadline: float) -> str | None:
    """Return why the application cannot connect, None when it can."""
    try:
        connect_as(APP, passwords, layout, deadline).close()
    except psycopg.OperationalError as error:
        return str(error).strip()
    return None
