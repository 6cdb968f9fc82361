"""One training run as a process: `python -m trainer REQUEST.json`.

Standard output carries one JSON object a line and nothing else; what libraries print goes to standard error. The last
line is `saved` or `failed`. Exit 0: saved; 1: failed, nothing was written; 64: usage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from eventlog.errors import FlywheelError

from .request import WarmupRequest, read_request
from .stage import train
from .start import Line
from .warmup import warm_up

USAGE = 64


def main(arguments: Sequence[str]) -> int:
    """Run the request that the one argument names."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m trainer REQUEST.json\n")
        return USAGE
    with _own_output() as lines:
        return _run(Path(arguments[0]), lines)


def _run(file: Path, lines: TextIO) -> int:
    def emit(line: Line) -> None:
        lines.write(f"{json.dumps(line)}\n")
        lines.flush()

    try:
        request = read_request(file)
        if isinstance(request, WarmupRequest):
            base = warm_up(request, emit)
            emit({"kind": "saved", "base": base.digest, "path": str(base.path)})
        elif saved := train(request, emit):
            emit({"kind": "saved", "checkpoint": saved.digest, "path": str(saved.path)})
    except FlywheelError as error:
        emit({"kind": "failed", "error": type(error).__name__, "message": str(error)})
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _own_output() -> TextIO:
    """Standard output for our lines alone: whatever else writes to it, here or in C, reaches standard error."""
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return kept


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
