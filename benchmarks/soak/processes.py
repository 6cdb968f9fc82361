"""The processes under soak: how they are started again, and what they hold, read from /proc."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

COMMAND = (sys.executable, "-c", "from api.cli.main import main; main()")
ROOT = Path(__file__).parents[2]
_READY_S = 120.0
_STOP_S = 30.0
_MIB = 1024


@dataclass
class Program:
    """A flywheel command that is meant to run all the time. `ended` counts how often it ended by itself."""

    name: str
    words: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    ended: int = 0
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _child: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The file that holds its output."""
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        """Start it; its output is appended to its log."""
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                [*COMMAND, *self.words], cwd=ROOT, env={**os.environ, **self.env}, stdout=out, stderr=out
            )

    def revive(self) -> None:
        """Start it again if it ended by itself, and count that."""
        if self._child is not None and self._child.poll() is not None:
            self.ended += 1
            self.start()

    def await_line(self, beginning: str) -> str:
        """The rest of the first line of its log that begins so. Raises TimeoutError after two minutes."""
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            for line in self.log.read_text("utf-8", "replace").splitlines():
                if line.startswith(beginning):
                    return line.removeprefix(beginning).strip()
            time.sleep(0.2)
        raise TimeoutError(f"{self.name} did not print {beginning!r}; see {self.log}")

    def sample(self) -> None:
        """Note its memory, sockets and file handles; nothing if it is not running."""
        if self._child is None or self._child.poll() is not None:
            return
        with suppress(OSError, StopIteration):
            for measure, value in held_by(self._child.pid).items():
                self.samples[measure].append(value)

    def stop(self) -> None:
        """Interrupt it, and kill it if it does not end."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def held_by(pid: int) -> dict[str, float]:
    """Resident memory in MiB, open sockets and open file handles of a process. Raises OSError if it is gone."""
    place = Path(f"/proc/{pid}")
    memory = next(line for line in (place / "status").read_text().splitlines() if line.startswith("VmRSS:"))
    handles = [_target(handle) for handle in (place / "fd").iterdir()]
    return {
        "memory MiB": int(memory.split()[1]) / _MIB,
        "sockets": float(sum(target.startswith("socket:") for target in handles)),
        "file handles": float(len(handles)),
    }


def _target(handle: Path) -> str:
    with suppress(OSError):
        return str(handle.readlink())
    return ""
