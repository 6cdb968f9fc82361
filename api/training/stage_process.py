"""Runs the training process `python -m trainer` and reads its lines. Training libraries are imported only there."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

from trainer.errors import ProcessEnded

Line = Mapping[str, Any]
"""One output line of a training process; docs/training.md lists the kinds."""

PROCESS_ENDED: Final = ProcessEnded.__name__
"""Error of a stage whose process died; it does not mean that its rows or its configuration are bad."""

_TAIL: Final = 1500


def trainer_lines(request: Path) -> Generator[Line]:
    """Start a training process and yield its output lines; the process is killed when the reader stops.

    The process also exits when this process ends, and keeps temporary files in the folder of the request. If it exits
    without a last line, a `failed` line is made from its exit code and standard error. When this generator ends, the
    children of the process have ended, too.
    """
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(  # noqa: S603 our own program
            [sys.executable, "-m", "trainer", str(request), "--attended"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        ) as process,
    ):
        is_last = False
        try:
            for text in process.stdout or ():
                line: Line = json.loads(text)
                is_last = line["kind"] in {"saved", "failed"}
                yield line
        finally:
            if process.poll() is None and not is_last:
                process.kill()
            _await_end(process)
        code = process.wait()
        if not is_last:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip()[-_TAIL:]
            words = f"the process exited with code {code}" + (f": {said}" if said else "")
            yield {"kind": "failed", "error": PROCESS_ENDED, "message": words}


def _await_end(process: subprocess.Popen[str]) -> None:
    """Close the process's input, which makes it exit, and wait until it and its children have closed its output."""
    if process.stdin is not None:
        process.stdin.close()
    for _ in process.stdout or ():
        pass
