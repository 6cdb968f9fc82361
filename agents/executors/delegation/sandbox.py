"""The sandbox of tools: a process of its own under bubblewrap, without network, on a read-only file system.

Where bubblewrap is missing, tools are refused, unless an operator opts into namespaces alone: then a tool still has no
network, no processes and no file to write, but it can read what this user can read.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from eventlog.events import SandboxKind

from ...delegation.answers import parse_object

BOX: Final = Path(__file__).with_name("box.py")
MOST_OUTPUT: Final = 262_144
_START_MS: Final = 2_000
"""How long the interpreter may take to start, besides the time of the tool."""


@dataclass(frozen=True, slots=True)
class Boxed:
    """Value that a tool returned, or the reason why it returned nothing."""

    value: dict[str, Any] | None
    error: str = ""


class ToolSandbox(Protocol):
    """A place to run tools in. Thread-safe."""

    @property
    def kind(self) -> SandboxKind:
        """Name of the fence."""
        ...

    def call(self, code: str, arguments: dict[str, Any], *, timeout_ms: int, memory_mb: int) -> Boxed:
        """Run a tool's handler once. Never raises for what a tool does."""
        ...


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Refuses every tool."""

    kind: SandboxKind = "none"

    def call(self, code: str, arguments: dict[str, Any], *, timeout_ms: int, memory_mb: int) -> Boxed:  # noqa: ARG002
        """See ToolSandbox.call."""
        return Boxed(None, "there is no sandbox on this machine")


@dataclass(frozen=True, slots=True)
class ProcessSandbox:
    """Runs each call in a process of its own, which `fence` (a command line) puts behind walls."""

    kind: SandboxKind
    fence: tuple[str, ...]
    box: str

    def call(self, code: str, arguments: dict[str, Any], *, timeout_ms: int, memory_mb: int) -> Boxed:
        """See ToolSandbox.call."""
        cpu_s = -(-timeout_ms // 1000) + 1
        asked = {"code": code, "arguments": arguments, "memory_bytes": memory_mb * 2**20, "cpu_s": cpu_s}
        try:
            told = json.dumps(asked).encode()
        except (TypeError, ValueError) as problem:
            return Boxed(None, f"the arguments are no JSON: {problem}")
        command = [*self.fence, interpreter(), "-I", "-S", "-B", self.box]
        answer = _answer_of(command, told, (timeout_ms + _START_MS) / 1000)
        if answer is None:
            return Boxed(None, f"the tool did not end within {timeout_ms} ms")
        if len(answer) > MOST_OUTPUT:
            return Boxed(None, f"the tool wrote more than {MOST_OUTPUT} bytes")
        facts = parse_object(answer.decode(errors="replace").strip().rpartition("\n")[2])
        if facts is None:
            return Boxed(None, "the tool ended without a result; it may have exceeded its memory or processor time")
        value, error = facts.get("value"), facts.get("error")
        return Boxed(value) if isinstance(value, dict) else Boxed(None, str(error)[:600])


def choose_sandbox(*, weaker: bool = False) -> ToolSandbox:
    """The best sandbox of this machine: bubblewrap, else namespaces if an operator allows them, else none."""
    for found in (bubblewrap(), namespaces() if weaker else None):
        if found is not None and _works(found):
            return found
    return NoSandbox()


def bubblewrap() -> ProcessSandbox | None:
    """A sandbox of bubblewrap, or None if it is not installed."""
    program = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    if program is None:
        return None
    binds = [argument for folder in _library_folders() for argument in ("--ro-bind", folder, folder)]
    links = [argument for name in ("/lib", "/lib64", "/bin") for argument in _link_or_bind(Path(name))]
    fence = (
        program,
        *("--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--uid", "65534", "--gid", "65534"),
        *("--cap-drop", "ALL", "--hostname", "box"),
        *binds,
        *links,
        *("--ro-bind", str(BOX), "/box.py", "--chdir", "/", "--remount-ro", "/"),
    )
    return ProcessSandbox("bubblewrap", fence, "/box.py")


def namespaces() -> ProcessSandbox | None:
    """A sandbox of namespaces alone, or None if util-linux's `setpriv` and `unshare` are missing."""
    names = ("setpriv", "unshare", "env")
    found = [path for name in names if (path := shutil.which(name, path="/usr/bin:/bin")) is not None]
    if len(found) < len(names):
        return None
    dying, program, env = found
    walls = ("--user", "--map-current-user", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child")
    # A killed parent takes the first process with it, and that one its child, so that no tool outlives its caller.
    return ProcessSandbox("namespaces", (dying, "--pdeathsig", "KILL", program, *walls, env, "-i"), str(BOX))


def interpreter() -> str:
    """The interpreter that runs tools: this one, without its virtual environment."""
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    return str(base) if base.exists() else os.path.realpath(sys.executable)


def _library_folders() -> tuple[str, ...]:
    """Folders that an interpreter reads: the system's libraries, and its own."""
    base = os.path.realpath(sys.base_prefix)
    own = () if base == "/usr" or base.startswith("/usr/") else (base,)
    return ("/usr", *own)


def _link_or_bind(folder: Path) -> Sequence[str]:
    if folder.is_symlink():
        return ("--symlink", str(folder.readlink()), str(folder))
    return ("--ro-bind", str(folder), str(folder)) if folder.exists() else ()


@cache
def _works(sandbox: ProcessSandbox) -> bool:
    """True if a tool can run there: a kernel may forbid namespaces or the filter."""
    found = sandbox.call("def handler(**kwargs):\n    return {'ok': True}\n", {}, timeout_ms=8_000, memory_mb=256)
    return found.value == {"ok": True}


def _answer_of(command: Sequence[str], told: bytes, timeout_s: float) -> bytes | None:
    """Standard output of a command, up to a little more than MOST_OUTPUT; None if it takes too long.

    The process and all that it started are killed at the end.
    """
    process = subprocess.Popen(  # noqa: S603 the command is ours, the code goes to its standard input
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={},
    )
    try:
        return _talk(process, told, time.monotonic() + timeout_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _talk(process: subprocess.Popen[bytes], told: bytes, deadline: float) -> bytes | None:
    if process.stdin is None or process.stdout is None:
        return None
    found, left = bytearray(), memoryview(told)
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdin, selectors.EVENT_WRITE)
        waiting.register(process.stdout, selectors.EVENT_READ)
        while (patience := deadline - time.monotonic()) > 0:
            for key, _ in waiting.select(patience):
                if key.fileobj is process.stdin:
                    try:
                        left = left[os.write(process.stdin.fileno(), left[:65_536]) :]
                    except BrokenPipeError:
                        left = left[:0]
                    if not left:
                        waiting.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = os.read(process.stdout.fileno(), 65_536)
                found += chunk
                if not chunk or len(found) > MOST_OUTPUT:
                    return bytes(found)
    return None
