"""The process of a warden, which starts an agent, watches it, and ends it with all that it started."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any, Final

from ...plans import UNTYPED
from .errors import WardenNotStarted

WARDEN: Final = Path(__file__).with_name("warden.py")
GRACE_S: Final = 10.0
"""How long the warden may take to start and to end an agent, beyond the agent's own time."""

_MOST_TOLD: Final = 64 * 2**20
_TAIL: Final = 2_000


def warden_lines(
    fence: Sequence[str], told: Mapping[str, Any], path: str, seconds: float
) -> Generator[dict[str, Any], None, None]:
    """Lines of a warden that is told of an agent, one by one; it and all processes of its group are gone at the end.

    Raises WardenNotStarted if it does not even say that it has started.
    """
    within_s = seconds + GRACE_S
    with TemporaryFile() as errors:
        try:
            warden = _start(fence, path, errors)
        except OSError as problem:
            raise WardenNotStarted(actual=str(problem), timeout_s=within_s) from problem
        told_lines: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        reading = (warden, time.monotonic() + within_s, told_lines)
        reader = Thread(target=_pass_on_lines, args=reading, name="lines of a warden", daemon=True)
        try:
            if warden.stdin is not None:
                with suppress(BrokenPipeError):
                    warden.stdin.write(json.dumps(told).encode() + b"\n")
                    warden.stdin.flush()  # it stays open: the warden ends the agent when this process is gone
            reader.start()
            lines = iter(told_lines.get, None)
            if next(lines, None) is None:
                raise WardenNotStarted(actual=_tail(errors), timeout_s=within_s)
            yield from lines
        finally:
            _end(warden, reader)


def _start(fence: Sequence[str], path: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 our own program, which starts the user's agent without a shell
        [*fence, sys.executable, "-I", "-S", "-B", str(WARDEN)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
        env={"PATH": path},
    )


def _tail(errors: IO[bytes]) -> str:
    """The last of what a warden or its fence wrote as an error, on one line."""
    errors.seek(0)
    return " ".join(UNTYPED.sub("", errors.read()[-_TAIL:].decode("utf-8", "replace")).split()) or "it said nothing"


def _pass_on_lines(
    warden: subprocess.Popen[bytes], deadline: float, told_lines: SimpleQueue[dict[str, Any] | None]
) -> None:
    """Put the warden's lines into the queue, and None after the last, however long whoever takes them needs for one."""
    try:
        for line in _read_lines(warden, deadline):
            told_lines.put(line)
    finally:
        told_lines.put(None)


def _read_lines(warden: subprocess.Popen[bytes], deadline: float) -> Iterator[dict[str, Any]]:
    """JSON objects that the warden writes, until it ends, the deadline passes, or it wrote too much."""
    if warden.stdout is None:
        return
    rest, total = b"", 0
    with selectors.DefaultSelector() as waiting:
        waiting.register(warden.stdout, selectors.EVENT_READ)
        while (patience := deadline - time.monotonic()) > 0 and total < _MOST_TOLD:
            if not waiting.select(patience):
                return
            chunk = os.read(warden.stdout.fileno(), 65_536)
            if not chunk:
                return
            total += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                with suppress(ValueError, RecursionError):
                    found = json.loads(line)
                    if isinstance(found, dict):
                        yield found


def _end(warden: subprocess.Popen[bytes], reader: Thread) -> None:
    """End the warden, which first ends its agent; then whatever is left of its group, and who reads its lines."""
    with suppress(BrokenPipeError):
        if warden.stdin is not None:
            warden.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        warden.wait(GRACE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(warden.pid, signal.SIGKILL)
    warden.wait()
    if reader.is_alive():
        reader.join()
    if warden.stdout is not None:
        warden.stdout.close()
