"""One training run as a process: `python -m trainer REQUEST.json`.

Standard output carries one JSON object a line and nothing else; what libraries print goes to standard error. The last
line is `saved` or `failed`. Exit 0: saved; 1: failed, nothing was written; 64: usage; 75: left alone.

With `--attended` whoever started it holds its standard input, and owns the folder of the request. It ends as soon as
that input does, in whatever it is doing, and what libraries lay down on the way lies in that folder.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Final, TextIO

from eventlog.errors import FlywheelError

from .request import WarmupRequest, read_request
from .stage import train
from .start import Line
from .warmup import warm_up

USAGE: Final = 64
LEFT_ALONE: Final = 75
ATTENDED: Final = "--attended"


def main(arguments: Sequence[str]) -> int:
    """Run the request that the first argument names."""
    file, *options = arguments or ("",)
    if not file or options not in ([], [ATTENDED]):
        sys.stderr.write(f"usage: python -m trainer REQUEST.json [{ATTENDED}]\n")
        return USAGE
    if options:
        tempfile.tempdir = str(Path(file).resolve().parent)
        Thread(target=_end_with_input, daemon=True).start()
    with _own_output() as lines:
        return _run(Path(file), lines)


def _end_with_input() -> None:
    """Standard input says nothing; it ends with the process that holds it, however that was killed."""
    while os.read(0, 1):
        pass
    os._exit(LEFT_ALONE)  # at once: nobody reads what it would come to


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
