"""Common parts of training processes: JSON output lines, the last line, and exit when the parent process ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Final, TextIO

from eventlog.errors import FlywheelError

from .checkpoint import Checkpoint
from .start import Emit, Line

LEFT_ALONE: Final = 75


def own_output() -> TextIO:
    """Reserve standard output for JSON lines: any other output to it, from Python or C, goes to standard error."""
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return kept


def end_with_input() -> None:
    """Make this process exit as soon as its standard input closes."""
    Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    """Exit at the end of standard input, which the parent holds open and which closes when the parent ends."""
    while os.read(0, 1):
        pass
    os._exit(LEFT_ALONE)  # at once: nobody would read the result


def saved_line(saved: Checkpoint | None) -> Line | None:
    """The last line of a training that produced a checkpoint."""
    return None if saved is None else {"kind": "saved", "checkpoint": saved.digest, "path": str(saved.path)}


def run_and_report(work: Callable[[Emit], Line | None], lines: TextIO) -> int:
    """Run work that emits lines and returns its last line, if any; return the exit code.

    A FlywheelError becomes the last line `failed`.
    """

    def emit(line: Line) -> None:
        lines.write(f"{json.dumps(line)}\n")
        lines.flush()

    try:
        last = work(emit)
    except FlywheelError as error:
        last = {"kind": "failed", "error": type(error).__name__, "message": str(error)}
        sys.stderr.write(f"{error}\n")
    if last is None:
        return 0
    emit(last)
    return 0 if last["kind"] == "saved" else 1
