"""Files of a home: how it was set up, and its passwords."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast, get_args
from urllib.parse import quote

from .account import Way
from .errors import DamagedFile, NeverSetUp
from .layout import PORT, Layout, folder

ADMIN, OWNER, APP = "flywheel_admin", "flywheel_owner", "flywheel"
DATABASE = "flywheel"


@dataclass(frozen=True)
class Setup:
    """How a home was set up. `store` and `sockets` are relative to its folder, or absolute if they lie elsewhere."""

    way: Way
    store: str
    sockets: str
    user: str | None = None

    def layout(self, home: Path) -> Layout:
        """Return the paths of a home with this setup. Relative parts move with the home."""
        return Layout(home, folder(home) / self.store, folder(home) / self.sockets)


@dataclass(frozen=True)
class Passwords:
    """One password for each of the three roles; never shown, never logged."""

    flywheel_admin: str = field(repr=False)
    flywheel_owner: str = field(repr=False)
    flywheel: str = field(repr=False)

    def of(self, role: str) -> str:
        """Return the password of the role."""
        return str(getattr(self, role))


@dataclass(frozen=True)
class Endpoints:
    """SQLAlchemy URLs of the database: as its owner for migrations, and as the application. They hold passwords."""

    owner_url: str = field(repr=False)
    app_url: str = field(repr=False)


def setup_file(home: Path) -> Path:
    """Return the file that says how the home was set up."""
    return folder(home) / "setup.json"


def passwords_file(home: Path) -> Path:
    """Return the file of the three passwords."""
    return folder(home) / "passwords.json"


def read_setup(home: Path) -> Setup | None:
    """Return how the home was set up, or None when it never was.

    Raises DamagedFile when the file is not what was written.
    """
    fields = _read(setup_file(home))
    if fields is None:
        return None
    try:
        setup = Setup(**fields)
    except TypeError as error:
        raise DamagedFile(file=setup_file(home), actual=str(error)) from error
    if setup.way not in get_args(Way):
        raise DamagedFile(file=setup_file(home), actual=f"the way {setup.way!r}")
    return setup


def write_setup(home: Path, setup: Setup) -> None:
    """Record how the home is set up."""
    write_private(setup_file(home), json.dumps(asdict(setup), indent=2) + "\n")


def read_passwords(home: Path) -> Passwords | None:
    """Return the passwords, or None when there are none.

    Raises DamagedFile when the file is not what was written.
    """
    fields = _read(passwords_file(home))
    if fields is None:
        return None
    try:
        return Passwords(**fields)
    except TypeError as error:
        raise DamagedFile(file=passwords_file(home), actual=str(error)) from error


def new_passwords(home: Path) -> Passwords:
    """Create random passwords and store them in a private file."""
    made = {role: secrets.token_urlsafe(24) for role in (ADMIN, OWNER, APP)}
    write_private(passwords_file(home), json.dumps(made, indent=2) + "\n")
    return Passwords(**made)


def recorded_endpoints(home: Path) -> Endpoints:
    """Return the URLs of a home that was set up. Starts nothing.

    Raises NeverSetUp when it was not.
    """
    setup, passwords = read_setup(home), read_passwords(home)
    if setup is None or passwords is None:
        missing = setup_file(home) if setup is None else passwords_file(home)
        raise NeverSetUp(home=home, expected=missing)
    sockets = setup.layout(home).sockets
    return Endpoints(url(OWNER, passwords, sockets), url(APP, passwords, sockets))


def url(role: str, passwords: Passwords, sockets: Path) -> str:
    """Return the SQLAlchemy URL of the database for the role."""
    secret, host = quote(passwords.of(role), safe=""), quote(str(sockets), safe="")
    return f"postgresql+psycopg://{role}:{secret}@/{DATABASE}?host={host}&port={PORT}"


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file atomically with this mode: after a crash it holds the old text or the new."""
    partial = path.with_name(path.name + ".new")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    partial.replace(path)
    sync_folder(path.parent)


def sync_folder(place: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedFile(file=path, actual=str(error)) from error
    if not isinstance(fields, dict):
        raise DamagedFile(file=path, actual=f"a JSON {type(fields).__name__}")
    return cast("dict[str, Any]", fields)
