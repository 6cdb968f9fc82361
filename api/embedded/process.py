"""Look up processes: whether one is alive, and whether it is the server of a data folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .account import ENVIRONMENT

PROC = Path("/proc")


def is_alive(pid: int) -> bool:
    """Return True if the process runs. A process that ended and was never reaped (a zombie) does not."""
    return (_state_and_name(pid) or ("Z", ""))[0] not in "ZX"


def is_server(pid: int, data: Path) -> bool:
    """Return True if the process is a running PostgreSQL of this data folder, not another one that reused its pid."""
    return _is_postgres(pid) and _works_in(pid, data)


def servers_in(data: Path) -> list[int]:
    """Return the running PostgreSQL processes of this data folder, including children of a killed server.

    A server whose folder was deleted under it is one of them: when it ends, it removes the socket of its successor.
    """
    if not PROC.is_dir():
        return []
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _is_postgres(pid) and (_works_in(pid, data) or _works_in_deleted(pid, data))]


def _is_postgres(pid: int) -> bool:
    state, name = _state_and_name(pid) or ("Z", "")
    return state not in "ZX" and name.startswith("postgres")


def _state_and_name(pid: int) -> tuple[str, str] | None:
    if not PROC.is_dir():
        state, name = _ps(pid, "stat"), Path(_ps(pid, "comm")).name
        return (state[0], name) if state else None
    try:
        before, _, after = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return after.split()[0], before.partition("(")[2]


def _works_in(pid: int, data: Path) -> bool:
    """Return True if the process works in the data folder; reads its command line if its folder is not visible."""
    if not PROC.is_dir():
        return _ps(pid, "command").endswith(f"-D {data}")
    try:
        return os.path.samestat((PROC / str(pid) / "cwd").stat(), data.stat())
    except PermissionError:
        return _is_server_command(pid, data)
    except (FileNotFoundError, ProcessLookupError):
        return False


def _works_in_deleted(pid: int, data: Path) -> bool:
    try:
        return str((PROC / str(pid) / "cwd").readlink()) == f"{data} (deleted)"
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _is_server_command(pid: int, data: Path) -> bool:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(data) in words


def _ps(pid: int, column: str) -> str:
    command = ["ps", "-ww", "-o", f"{column}=", "-p", str(pid)]
    answer = subprocess.run(  # noqa: S603 - a fixed command and a number
        command, env=ENVIRONMENT, capture_output=True, text=True, errors="replace", check=False
    )
    return answer.stdout.strip()
