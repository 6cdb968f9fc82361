"""Starts, kills, pauses and stops the processes under load.

They are forked from a server process with preloaded libraries, so that a restart takes milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from .roles import Plan, projector, subscriber, writer

Role = Callable[[Plan, str], None]

CREW: Mapping[str, Role] = {
    "writer-1": writer,
    "writer-2": writer,
    "writer-3": writer,
    "writer-4": writer,
    "projector-1": projector,
    "projector-2": projector,
    "subscriber-1": subscriber,
    "subscriber-2": subscriber,
}

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.chaos.roles"])


class Crew:
    """Eight processes that share one plan."""

    def __init__(self, plan: Plan, members: Mapping[str, Role] = CREW) -> None:
        self.plan = plan
        self._members = members
        self._processes: dict[str, ForkServerProcess] = {}

    def start(self) -> None:
        """Start all members."""
        for name in self._members:
            self._start(name)

    def named(self, kind: str) -> list[str]:
        """Names of the members of a kind: writer, projector or subscriber."""
        return [name for name in self._members if name.startswith(kind)]

    def replace(self, name: str) -> None:
        """Kill a member with SIGKILL and start a replacement."""
        process = self._processes[name]
        process.kill()
        process.join()
        self._start(name)

    def revive(self) -> list[str]:
        """Restart members that ended by themselves, which is a defect, and return their names."""
        fallen = [name for name, process in self._processes.items() if process.exitcode is not None]
        for name in fallen:
            self._start(name)
        return fallen

    def signal(self, name: str, number: signal.Signals) -> None:
        """Pause or continue a member."""
        pid = self._processes[name].pid
        if pid is not None:
            os.kill(pid, number)

    def ended(self, kind: str, within_s: float) -> list[str]:
        """Wait until the members of a kind have ended; return the names of those that have not."""
        deadline = time.monotonic() + within_s
        for name in self.named(kind):
            self._processes[name].join(max(0.0, deadline - time.monotonic()))
        return [name for name in self.named(kind) if self._processes[name].exitcode is None]

    def end(self) -> None:
        """Kill the remaining members."""
        for process in self._processes.values():
            with suppress(ValueError):
                process.kill()
                process.join()

    def _start(self, name: str) -> None:
        process = _CONTEXT.Process(target=self._members[name], args=(self.plan, name), name=name, daemon=True)
        process.start()
        self._processes[name] = process


def journals(folder: Path) -> list[Path]:
    """Journal files of all writers."""
    return sorted(folder.glob("*.journal"))
