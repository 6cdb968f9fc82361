"""Servers as processes, each the leader of a group: all that it started can be paused or killed with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

_READY_S = 900.0
_STOP_S = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")
_SESSION, _USER, _SYSTEM = 3, 11, 12
"""Places of fields in /proc/PID/stat after the name of the command."""


class NotReadyError(Exception):
    """A server did not answer in time, or ended before."""


@dataclass
class Program:
    """A server that is started with `words` and answers at `url` once it is ready. Its output goes to a file."""

    words: Sequence[str]
    env: Mapping[str, str]
    url: str
    ready: str
    log: Path
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it and wait until it answers. Raises NotReadyError, with the end of its output."""
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                self.words, env=dict(self.env), cwd=self.log.parent, stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and self._child.poll() is None:
            with suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.url}{self.ready}", timeout=5, trust_env=False).is_success:
                    return
            time.sleep(0.25)
        told = self.log.read_text("utf-8", "replace")[-2_000:]
        self.kill()
        raise NotReadyError(f"{self.words[0]} did not answer at {self.ready}: {told}")

    def kill(self) -> None:
        """Kill it and all that it started, at once."""
        if self._child is not None:
            self._signal(signal.SIGKILL)
            self._child.wait()

    def stop(self) -> None:
        """Ask it to end, and kill what is left."""
        if self._child is None:
            return
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_STOP_S)
        self.kill()

    def pause(self) -> None:
        """Hold all of its processes, so that they take no time from another server."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let its processes go on."""
        self._signal(signal.SIGCONT)

    def processor_seconds(self) -> float:
        """What its processes that are alive have used so far."""
        return 0.0 if self._child is None else sum(_used(self._child.pid))

    def _signal(self, number: int) -> None:
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)


def _used(session: int) -> Iterator[float]:
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                told = (place / "stat").read_text().rpartition(") ")[2].split()
                if int(told[_SESSION]) == session:
                    yield (int(told[_USER]) + int(told[_SYSTEM])) / _TICKS


def free_port() -> int:
    """A port of this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def only(program: Program, others: Sequence[Program]) -> Iterator[None]:
    """Pause the other programs until the block ends."""
    for each in others:
        if each is not program:
            each.pause()
    try:
        yield
    finally:
        for each in others:
            each.go_on()
