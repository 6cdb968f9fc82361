"""Runs the training process `python -m trainer` and reads its lines. Training libraries are imported only there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

from trainer.errors import ProcessEnded, ProcessOutOfMemory

Line = Mapping[str, Any]
"""One output line of a training process; docs/training.md lists the kinds."""

PROCESS_ENDED: Final = ProcessEnded.__name__
"""Error of a stage whose process died; it does not mean that its rows or its configuration are bad."""

_TAIL: Final = 1500
_EXIT_S: Final = 60.0
"""Seconds that a process without a last line has to say why and to exit."""
_OUT_OF_MEMORY: Final = ("can't allocate memory", "CUDA out of memory", "MemoryError", "std::bad_alloc")
"""Words of torch, Python and C++ where memory is short."""


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
        is_last, is_closed, plan, kills = False, False, "nothing was said of its memory", _count_kills()
        try:
            for text in process.stdout or ():
                line: Line = json.loads(text)
                plan = _plan_in_words(line) if line["kind"] == "memory" else plan
                is_last = line["kind"] in {"saved", "failed"}
                yield line
            is_closed = True
        finally:
            if not is_last and not (is_closed and _exits(process)):
                process.kill()
            _await_end(process)
        code = process.wait()
        if not is_last:
            complaints.seek(0)
            yield _last_line(code, complaints.read().decode(errors="replace").strip(), plan, kills)


def _exits(process: subprocess.Popen[str]) -> bool:
    """Wait for a process that closed its output, because it may still be saying what went wrong; False if it stays."""
    try:
        process.wait(_EXIT_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _last_line(code: int, said: str, plan: str, kills: int | None) -> Line:
    """The line for a process without a last one: out of memory if the kernel or a library says so, else its exit code.

    `kills` is the number of processes that the kernel had killed for memory before this one started.
    """
    found = next((words for words in _OUT_OF_MEMORY if words in said), None)
    after = _count_kills()
    is_killed = code == -signal.SIGKILL and kills is not None and after is not None and after > kills
    if found is not None or is_killed:
        actual = "was killed by the system (signal 9)" if is_killed else f"ended with {found!r}"
        error = ProcessOutOfMemory(actual=actual, expected=plan, said=said[-_TAIL:] or "none")
        return {"kind": "failed", "error": type(error).__name__, "message": str(error)}
    words = f"the process exited with code {code}" + (f": {said[-_TAIL:]}" if said else "")
    if code == -signal.SIGKILL:
        words = f"the process was killed (signal 9), as the system does where memory is short; {plan}. {said[-_TAIL:]}"
    return {"kind": "failed", "error": PROCESS_ENDED, "message": words}


def _plan_in_words(line: Line) -> str:
    free = f" of {line['available_mib']} MiB" if "available_mib" in line else ""
    return f"it had planned {line['rows_per_pass']} rows a pass, which need about {line['needs_mib']} MiB{free}"


def _count_kills() -> int | None:
    """How many processes the kernel has killed for memory since it started; None where it does not tell."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def _await_end(process: subprocess.Popen[str]) -> None:
    """Close the process's input, which makes it exit, and wait until it and its children have closed its output."""
    if process.stdin is not None:
        process.stdin.close()
    for _ in process.stdout or ():
        pass
