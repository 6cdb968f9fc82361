"""What every training process does alike: its lines and its last word, and its end when nobody attends it any more."""

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
    """Standard output for our lines alone: whatever else writes to it, here or in C, reaches standard error."""
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return kept


def end_with_input() -> None:
    """From now on this process ends as soon as its standard input does, in whatever it is doing."""
    Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    """Standard input says nothing; it ends with the process that holds it, however that was killed."""
    while os.read(0, 1):
        pass
    os._exit(LEFT_ALONE)  # at once: nobody reads what it would come to


def saved_line(saved: Checkpoint | None) -> Line | None:
    """The last word of a training that gave a checkpoint."""
    return None if saved is None else {"kind": "saved", "checkpoint": saved.digest, "path": str(saved.path)}


def run_and_report(work: Callable[[Emit], Line | None], lines: TextIO) -> int:
    """Do work that says lines and gives its last word, `saved` or `failed`, if it has one: the exit code.

    What it is refused with is its last word, too.
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
