"""Client of the process that runs the `eventsourcing` library in its own virtual environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eventlog.codec import encode_events
from eventlog.store import Append

ENVIRONMENT = Path(__file__).parents[2] / ".bench-venv"
PROGRAM = Path(__file__).with_name("peer_process.py")
MISSING = "the library is not installed; `make bench-log` installs it where it can"


class Peer:
    """The running process of the library."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def insert(self, events: Sequence[Sequence[str]], size: int) -> tuple[int, float]:
        """Insert events, `size` per commit; return their number and the seconds."""
        return len(events), self._ask({"ask": "insert", "events": events, "size": size})

    def project(self, folds: Mapping[str, Sequence[str]]) -> float:
        """Run the projections one after another over all inserted events, each with its event types; return seconds."""
        return self._ask({"ask": "project", "folds": folds})

    def _ask(self, question: dict[str, Any]) -> float:
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("the peer process was started without pipes")
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the peer process ended; see its error above")
        return float(json.loads(answer))


@contextmanager
def peer(connection: Mapping[str, str]) -> Iterator[Peer | None]:
    """Start the library on a database; None if its environment does not exist."""
    if not (ENVIRONMENT / ".ready").exists():
        yield None
        return
    environment = {"PERSISTENCE_MODULE": "eventsourcing.postgres", "PATH": "/usr/bin:/bin", **connection}
    with subprocess.Popen(
        [str(ENVIRONMENT / "bin" / "python"), str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield Peer(process)
        finally:
            process.kill()


def plain(requests: Sequence[Append]) -> list[list[str]]:
    """Events in the peer's format: stream, type, serialised payload."""
    return [[request.stream, row.type, row.payload.decode()] for request in requests for row in encode_events(request)]
