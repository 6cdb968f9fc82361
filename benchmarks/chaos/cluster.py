"""An embedded PostgreSQL that can be killed: its postmaster, one of its backends, or all of its processes at once."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from api import embedded
from api.embedded.postmaster import find_server
from api.embedded.process import servers_in
from api.embedded.record import Endpoints, read_setup
from eventlog.database import open_engine
from eventlog.errors import FlywheelError
from migrations.migrate import migrate

_RESTART_S = 120.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The embedded server in a home folder."""

    home: Path

    def up(self) -> Endpoints:
        """Start the server if it is not running. A failed start is retried for two minutes, then it raises."""
        deadline = time.monotonic() + _RESTART_S
        while True:
            try:
                return embedded.up(self.home)
            except FlywheelError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def down(self) -> None:
        """Stop the server cleanly."""
        embedded.down(self.home)

    def project(self, name: str) -> str:
        """Create a migrated, empty project and return the application's URL."""
        found = self.up()
        owner = open_engine(found.owner_url, name)
        migrate(owner, app_role="flywheel")
        owner.dispose()
        return found.app_url

    def kill_postmaster(self) -> bool:
        """Kill only the postmaster; True if it was running."""
        found = find_server(self._data)
        return found is not None and _killed(found.pid)

    def kill_all(self) -> bool:
        """Kill every process of the server at once, like a power cut."""
        killed = [_killed(pid) for pid in servers_in(self._data)]
        return any(killed)

    def kill_backend(self, pick: float) -> bool:
        """Kill one process that serves a connection; `pick` (0 to 1) selects it."""
        pids = sorted(pid for pid in servers_in(self._data) if b"flywheel flywheel" in _command(pid))
        return bool(pids) and _killed(pids[int(pick * len(pids))])

    @property
    def _data(self) -> Path:
        setup = read_setup(self.home)
        if setup is None:
            raise FileNotFoundError(f"no embedded server was set up in {self.home}")
        return setup.layout(self.home.resolve()).data


def _killed(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
