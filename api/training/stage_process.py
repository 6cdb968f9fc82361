"""The process that trains: `python -m trainer`, read line by line. What it needs is imported there, never here."""

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
"""One line of a training process, as docs/training.md lists them."""

PROCESS_ENDED: Final = ProcessEnded.__name__
"""The error of a stage whose process died, which says nothing against its rows or its configuration."""

_TAIL: Final = 1500


def trainer_lines(request: Path) -> Generator[Line]:
    """Every line of the process that a request gets; it is killed where the reader stops reading.

    It ends with this process too, however that ends, and lays down beside the request what it needs on the way. Where
    it ends without a last word, one is made of how it ended and of what it wrote to standard error. The processes that
    it started are gone as well when this is over.
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
            words = f"the process ended with {code}" + (f": {said}" if said else "")
            yield {"kind": "failed", "error": PROCESS_ENDED, "message": words}


def _await_end(process: subprocess.Popen[str]) -> None:
    """Nobody attends it any more. Its output ends with the last process that holds it."""
    if process.stdin is not None:
        process.stdin.close()
    for _ in process.stdout or ():
        pass
