"""One training run as a process: `python -m trainer REQUEST.json`.

Standard output carries one JSON object per line and nothing else; output of libraries goes to standard error. The last
line is `saved` or `failed`. Exit codes: 0 saved; 1 failed, nothing was written; 64 usage; 75 parent process ended.

With `--attended` the process exits as soon as its standard input closes, which happens when its parent process ends.
Temporary files of libraries then go into the folder of the request, which the parent owns.

If the configuration sets several processes, this process starts and supervises them, and forwards their output lines.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from .process import end_with_input, own_output, run_and_report, saved_line
from .request import WarmupRequest, read_request
from .stage import run_stage
from .start import Emit, Line
from .together import train_together
from .warmup import warm_up

USAGE: Final = 64
ATTENDED: Final = "--attended"


def main(arguments: Sequence[str]) -> int:
    """Run the request that the first argument names."""
    file, *options = arguments or ("",)
    if not file or options not in ([], [ATTENDED]):
        sys.stderr.write(f"usage: python -m trainer REQUEST.json [{ATTENDED}]\n")
        return USAGE
    if options:
        tempfile.tempdir = str(Path(file).resolve().parent)
        end_with_input()
    with own_output() as lines:
        return run_and_report(lambda emit: run_request(Path(file), emit, lines), lines)


def run_request(file: Path, emit: Emit, lines: TextIO) -> Line | None:
    """Run a training request and return its last line, `saved`. Worker processes share `lines` with this one."""
    request = read_request(file)
    if isinstance(request, WarmupRequest):
        base = warm_up(request, emit)
        return {"kind": "saved", "base": base.digest, "path": str(base.path)}
    if request.config.processes > 1:
        return train_together(file, request.config.processes, emit, lines)
    return saved_line(run_stage(request, emit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
