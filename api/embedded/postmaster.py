"""Find, launch, await and stop the server process."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from psycopg import pq
from psycopg.conninfo import make_conninfo

from .account import ServerAccount, own, run_as
from .errors import StartFailed, StillStarting, StillStopping
from .layout import PORT, Layout
from .process import is_alive, is_server, servers_in

LOG_BYTES = 16 * 2**20
TAIL_BYTES = 2000
POLL_S, LONGEST_POLL_S = 0.02, 0.25
STATUS_LINE = 7
LAUNCH = 'exec "$@" </dev/null >>"$0" 2>&1 & echo $!'


@dataclass(frozen=True)
class Postmaster:
    """A server as described by its pid file."""

    pid: int
    started_at: datetime
    ready: bool


def parse_pid_file(text: str) -> Postmaster | None:
    """Parse a postmaster.pid; None while its first three lines are not complete."""
    lines = text.split("\n")
    if len(lines) < 4 or not lines[0].strip().isdigit() or not lines[2].strip().isdigit():  # noqa: PLR2004
        return None
    ready = len(lines) > STATUS_LINE and lines[STATUS_LINE].strip() == "ready"
    return Postmaster(int(lines[0]), datetime.fromtimestamp(int(lines[2]), UTC), ready)


def find_server(data: Path) -> Postmaster | None:
    """Return the running server of the data folder, or None; a stale pid file is ignored."""
    found = _read_pid_file(data)
    return found if found is not None and is_server(found.pid, data) else None


def remove_leftovers(layout: Layout, deadline: float) -> None:
    """Remove what a killed server left: its children, its pid file and its socket.

    Raises StillStopping when a child does not end in time.
    """
    pids = servers_in(layout.data)
    for pid in pids:
        _signal(pid, signal.SIGQUIT)
    await_end(pids, layout, deadline)
    _pid_file(layout.data).unlink(missing_ok=True)
    for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
        (layout.sockets / name).unlink(missing_ok=True)


def launch(binaries: Path, layout: Layout, account: ServerAccount) -> int:
    """Start a server that outlives this process, in a new session and with its output in the log; return its pid.

    Raises StartFailed when it cannot even be started.
    """
    if layout.log.exists() and layout.log.stat().st_size > LOG_BYTES:
        layout.log.replace(layout.log.with_name("server.log.1"))
    layout.log.touch(mode=0o600)
    own(layout.log, account)
    server = (str(binaries / "bin" / "postgres"), "-D", str(layout.data))
    started = run_as(account, ("/bin/sh", "-c", LAUNCH, str(layout.log), *server), cwd=layout.store)
    if started.returncode != 0 or not started.stdout.strip().isdigit():
        raise StartFailed(data=layout.data, log=layout.log, tail=started.stderr.strip())
    return int(started.stdout)


def await_ready(pid: int, layout: Layout, deadline: float) -> bool:
    """Wait until the server accepts connections, however long it recovers; False when it ends instead.

    Raises StillStarting at the deadline.
    """
    pause_s = POLL_S
    while not _accepts(pid, layout, deadline):
        if not is_alive(pid):
            return False
        if time.monotonic() > deadline:
            raise StillStarting(data=layout.data, pid=pid, log=layout.log, tail=tail(layout.log))
        time.sleep(pause_s)
        pause_s = min(LONGEST_POLL_S, pause_s * 1.1)
    return True


def stop(pid: int, layout: Layout, deadline: float) -> None:
    """End the server by a fast shutdown: open transactions are rolled back, everything is written.

    Raises StillStopping at the deadline.
    """
    _signal(pid, signal.SIGINT)
    await_end([pid], layout, deadline)


def await_end(pids: list[int], layout: Layout, deadline: float) -> None:
    """Wait until all of the processes have ended.

    Raises StillStopping at the deadline.
    """
    while living := [pid for pid in pids if is_alive(pid)]:
        if time.monotonic() > deadline:
            raise StillStopping(data=layout.data, pids=living, log=layout.log, tail=tail(layout.log))
        time.sleep(POLL_S)


def tail(log: Path) -> str:
    """Return the last lines of the log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return "(no log)"


def patience_s(deadline: float) -> int:
    """Return the timeout of one connection attempt in seconds, so that a hanging server hardly exceeds the deadline."""
    return max(2, min(30, round(deadline - time.monotonic())))


def _accepts(pid: int, layout: Layout, deadline: float) -> bool:
    """Return True if the server accepts connections. Asks only when it reports ready, to keep its log short."""
    told = _read_pid_file(layout.data)
    if told is None or told.pid != pid or not told.ready:
        return False
    target = make_conninfo(
        host=str(layout.sockets), port=PORT, dbname="postgres", user="flywheel", connect_timeout=patience_s(deadline)
    )
    return pq.PGconn.ping(target.encode()) == pq.Ping.OK


def _read_pid_file(data: Path) -> Postmaster | None:
    try:
        return parse_pid_file(_pid_file(data).read_text())
    except FileNotFoundError:
        return None


def _pid_file(data: Path) -> Path:
    return data / "postmaster.pid"


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
