"""The program that starts an agent, watches it, and ends it with everything that it started.

It is run as a file by a bare interpreter, so it imports the standard library only. Its first line of standard input is
a JSON object: `command`, `variables`, `folder`, `home`, `steps_file`, and the limits. When standard input ends, whoever
started it is gone, and so is the agent. On standard output it writes lines of JSON: one before it starts the agent,
`{"started": true}`, one for each step that the agent reports, `{"step": TEXT}`, and one at the end:
`{"end": WHY, "code": STATUS, "output": TAIL}`.

Orphans become children of this process (it is their subreaper), so no process escapes by a session of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import selectors
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

SET_PARENT_DEATH_SIGNAL, SET_SUBREAPER = 1, 36
POLL_S = 0.05
TAIL = 8_192
LONGEST_LINE = 32_768
"""Most bytes of a reported step; the rest of the line is left out, and so it is no step."""
MOST_OTHERS = 10_000
"""Most lines of a steps file that are no steps: they are skipped, and whoever writes more is ended."""


class Steps:
    """The steps file, read line by line while the agent writes it. It may write anything, or remove it.

    A pipe or a device in its place, which could keep a reader for ever, is not read. `number` counts the steps, and
    `others` the lines that are none.
    """

    def __init__(self, file: str, most: int) -> None:
        self.file, self.most = file, most
        self.offset = self.number = self.others = 0
        self.rest = b""

    def read(self, *, is_last: bool = False) -> Iterator[str]:
        """Yield the new steps, at most `most` in all; if this `is_last`, also that of a line without an end."""
        with suppress(OSError), open(self.file, "rb", buffering=0, opener=_open_at_once) as opened:
            found = os.fstat(opened.fileno())
            end = found.st_size if stat.S_ISREG(found.st_mode) else 0
            opened.seek(self.offset)
            while self.excess() is None and self.offset < end and (chunk := opened.read(65_536)):
                self.offset += len(chunk)
                *lines, self.rest = (self.rest + chunk).split(b"\n")
                self.rest = self.rest[:LONGEST_LINE]
                yield from self._steps_of(lines)
        if is_last and self.rest:
            yield from self._steps_of([self.rest])

    def excess(self) -> str | None:
        """The limit that the file exceeds; None if none."""
        return "steps" if self.number > self.most else "lines" if self.others > MOST_OTHERS else None

    def _steps_of(self, lines: list[bytes]) -> Iterator[str]:
        for line in lines:
            if self.excess() is not None:
                return
            text = line[:LONGEST_LINE].decode("utf-8", "replace")
            if is_step(text):
                self.number += 1
                if self.number <= self.most:
                    yield text
            else:
                self.others += 1


def is_step(line: str) -> bool:
    """True for a JSON object with a name."""
    with suppress(ValueError, RecursionError):
        said = json.loads(line)
        return isinstance(said, dict) and isinstance(said.get("name"), str) and bool(said["name"].strip())
    return False


def _open_at_once(file: str, flags: int) -> int:
    """Open without waiting for a writer, and no link."""
    return os.open(file, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


class Agent:
    """The agent's process, and the end of what it printed."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.printed, self.tail = 0, b""
        self.code: int | None = None

        def limit() -> None:
            system.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, told["file_bytes"])):
                resource.setrlimit(what, (most, most))

        system = ctypes.CDLL(None)
        self.process = subprocess.Popen(  # noqa: S603 the user's agent, without a shell
            told["command"],
            cwd=told["folder"],
            env=told["variables"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=limit,  # noqa: PLW1509 this process has one thread
        )

    def has_ended(self) -> bool:
        """True if the agent's first process has ended; its status is then known."""
        if self.code is None:
            pid, status = os.waitpid(self.process.pid, os.WNOHANG)
            if pid:
                self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def read(self) -> bool:
        """Read what it printed; False at the end."""
        chunk = os.read(self.process.stdout.fileno(), 65_536) if self.process.stdout else b""
        self.printed += len(chunk)
        self.tail = (self.tail + chunk)[-TAIL:]
        return bool(chunk)

    def drain(self) -> None:
        """Read what is left in the pipe, after the end of every process that could write there."""
        if self.process.stdout:
            os.set_blocking(self.process.stdout.fileno(), False)
            with suppress(BlockingIOError):
                while self.read():
                    pass

    def end(self) -> None:
        """End the agent with every process that descends from this one, and wait until they are gone."""
        while True:
            for pid in descendant_pids():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if self._reap_all():
                return
            time.sleep(0.002)

    def _reap_all(self) -> bool:
        """Take the status of all children that have ended; True if no child is left."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.process.pid:
                    self.code = self.process.returncode = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            return True
        return False


def descendant_pids() -> list[int]:
    """The processes that descend from this one."""
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        parent = waiting.pop()
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208
                children = Path(f"/proc/{parent}/task/{thread}/children").read_text("ascii").split()
                waiting += map(int, children)
                found += map(int, children)
    return found


def memory_of(pids: list[int]) -> int:
    """Bytes of memory that the processes hold; shared pages count for each."""
    pages = 0
    for pid in pids:
        with suppress(OSError, IndexError, ValueError):
            pages += int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


def tell_starter(**facts: object) -> None:
    """Write a line to whoever started this process."""
    os.write(1, json.dumps(facts).encode() + b"\n")


def watch(agent: Agent, steps: Steps, told: dict[str, Any]) -> str:
    """Watch the agent until it ends or exceeds a limit. Returns why it ended."""
    deadline, looked = time.monotonic() + told["seconds"], 0.0
    with selectors.DefaultSelector() as waiting:
        waiting.register(0, selectors.EVENT_READ)
        if agent.process.stdout:
            waiting.register(agent.process.stdout, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select(POLL_S):
                if key.fileobj == 0:
                    return "left"
                if not agent.read():
                    waiting.unregister(key.fileobj)
            if agent.printed > told["output_bytes"]:
                return "output"
            now = time.monotonic()
            if now < looked + POLL_S and not agent.has_ended():
                continue  # it prints a lot; to look at it each time would cost more than reading
            looked = now
            if (why := why_ended(agent, steps, told, is_late=now > deadline)) is not None:
                return why


def pass_on(steps: Steps, *, is_last: bool = False) -> str | None:
    """Tell the steps reported since the last time. Returns the limit that their file exceeds; None if none."""
    for line in steps.read(is_last=is_last):
        tell_starter(step=line)
    return steps.excess()


def why_ended(agent: Agent, steps: Steps, told: dict[str, Any], *, is_late: bool) -> str | None:
    """Why the agent's run is over: the limit that it exceeds, or that it ended by itself; None if it goes on."""
    if (excess := pass_on(steps)) is not None:
        return excess
    if agent.has_ended():
        return "exited"
    if is_late:
        return "deadline"
    running = descendant_pids()
    if len(running) > told["processes"]:
        return "processes"
    return "memory" if memory_of(running) > told["memory_bytes"] else None


def read_told() -> dict[str, Any] | None:
    """The first line of standard input; None if it ended before."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(0, 65_536)
        if not chunk:
            return None
        line += chunk
    found: dict[str, Any] = json.loads(line)
    return found


def play_agent(told: dict[str, Any]) -> None:
    """Run the agent to its end, and tell how it ended."""
    steps = Steps(told["steps_file"], told["steps"])
    try:
        agent = Agent(told)
    except (OSError, ValueError) as problem:
        tell_starter(end="refused", code=None, output=f"{told['command'][0]}: {problem}")
        return
    try:
        why = watch(agent, steps, told)
    finally:
        agent.end()
    agent.drain()
    if why == "exited":
        why = pass_on(steps, is_last=True) or why
    tell_starter(end=why, code=agent.code, output=agent.tail.decode("utf-8", "replace"))


def remove_home(home: Path) -> None:
    """Remove an agent's home, also folders that it may not write in any more. What cannot be removed stays."""
    shutil.rmtree(home, ignore_errors=True)
    if home.is_symlink():
        return  # an agent put it there, and it leads to what is not the agent's
    permit_writing(home)
    for parent, folders, _ in os.walk(home):
        for folder in folders:
            permit_writing(Path(parent, folder))
    shutil.rmtree(home, ignore_errors=True)


def permit_writing(folder: Path) -> None:
    """Let this user list the folder and write in it, unless it is a link."""
    with suppress(OSError):
        if not folder.is_symlink():
            folder.chmod(stat.S_IRWXU)


def main() -> None:
    """Run the agent of the first line of standard input, and remove its home."""
    told = read_told()
    if told is None:
        return
    ctypes.CDLL(None).prctl(SET_SUBREAPER, 1)
    try:
        with suppress(BrokenPipeError):
            tell_starter(started=True)
            play_agent(told)
    finally:
        remove_home(Path(told["home"]))


if __name__ == "__main__":
    main()
