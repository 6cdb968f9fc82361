"""Starts, supervises and stops several training processes on one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from .errors import ProcessEnded
from .start import Emit, Line

_TAIL: Final = 1200


@dataclass(frozen=True, slots=True)
class _Started:
    """Processes ordered by rank, the standard error of each, and the output lines of all."""

    processes: Sequence[subprocess.Popen[bytes]]
    complaints: Sequence[BinaryIO]
    lines: TextIO


def train_together(file: Path, processes: int, emit: Emit, held: TextIO) -> Line:
    """Run a training request in several processes; return the first last line of any of them, once all have exited.

    The processes keep `held` open while they run. Raises ProcessEnded if one of them exits without a last line; the
    others are then stopped.
    """
    with ThreadPoolExecutor(processes) as watching, _start_processes(file, processes, held) as started:
        failing: list[int] = []
        for rank in range(processes):
            watching.submit(_watch, started.processes, rank, failing)
        last: Line | None = None
        for text in started.lines:
            line: Line = json.loads(text)
            if line["kind"] not in {"saved", "failed"}:
                emit(line)
            else:
                last = last or line
        watching.shutdown()
        sys.stderr.write(f"{_tail(started.complaints[0])}\n")
        if last is None:
            rank = failing[0] if failing else 0
            code = started.processes[rank].returncode
            raise ProcessEnded(rank=rank, processes=processes, actual=code, said=_tail(started.complaints[rank]))
        return last


@contextmanager
def _start_processes(file: Path, processes: int, held: TextIO) -> Iterator[_Started]:
    """Start the processes with a new rendezvous folder. They exit when this process, and so their input, ends."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as kept:
        complaints = [kept.enter_context(tempfile.TemporaryFile()) for _ in range(processes)]
        reading, writing = os.pipe()
        lines = kept.enter_context(os.fdopen(reading, encoding="utf-8"))
        with os.fdopen(writing, "wb") as saying:
            ranks = [
                kept.enter_context(
                    subprocess.Popen(  # noqa: S603 our own program
                        [sys.executable, "-m", "trainer.rank", str(file), str(rank), folder],
                        stdin=subprocess.PIPE,
                        stdout=saying,
                        stderr=complaint,
                        pass_fds=[held.fileno()],
                    )
                )
                for rank, complaint in enumerate(complaints)
            ]
        yield _Started(ranks, complaints, lines)


def _watch(processes: Sequence[subprocess.Popen[bytes]], rank: int, failing: list[int]) -> None:
    """Wait for a process. If it fails, stop the others, which would otherwise wait for it."""
    if processes[rank].wait():
        failing.append(rank)
        for each in processes:
            each.kill()


def _tail(complaint: BinaryIO) -> str:
    complaint.seek(0)
    return complaint.read().decode(errors="replace").strip()[-_TAIL:]
