"""Paths below a home. Pure."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from .errors import SocketPathUnusable

PORT = 5432
STORES = Path("/var/lib/flywheel")
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107


@dataclass(frozen=True)
class Layout:
    """The paths of one home: `folder` is private to its user, `store` holds what the server's user reads and writes."""

    home: Path
    store: Path
    sockets: Path

    @property
    def folder(self) -> Path:
        """The private folder of the database."""
        return folder(self.home)

    @property
    def data(self) -> Path:
        """The data folder of PostgreSQL."""
        return self.store / "data"

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.store / "server.log"

    @property
    def configuration(self) -> Path:
        """Flywheel's settings file, included at the end of postgresql.conf."""
        return self.store / "flywheel.conf"


def folder(home: Path) -> Path:
    """Return the private folder of the home's database."""
    return home / "postgres"


def lock_file(home: Path) -> Path:
    """Return the file that is locked while the home's database is started or stopped."""
    return folder(home) / "lock"


def home_digest(home: Path) -> str:
    """Return a short name for the home, the same on every call."""
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def holds_sockets(place: Path) -> bool:
    """Return True if the server can bind a socket in this folder and libpq can name it in a connection string."""
    path = place / f".s.PGSQL.{PORT}"
    plain = str(path).isprintable() and "," not in str(path)
    return plain and len(os.fsencode(path)) <= SOCKET_PATH_BYTES


def sockets(home: Path, store: Path, temporary: Path) -> Path:
    """Return the folder for the socket: `run` in the store, or where its path is too long one in the temporary folder.

    Raises SocketPathUnusable when neither path is short and plain enough.
    """
    inside, outside = store / "run", temporary / f"flywheel-{home_digest(home)}"
    for place in (inside, outside):
        if holds_sockets(place):
            return place
    raise SocketPathUnusable(actual=str(outside), expected=SOCKET_PATH_BYTES)
