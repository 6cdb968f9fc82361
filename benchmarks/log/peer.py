"""Our end of the line to the `eventsourcing` library in its own environment."""

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
    """The running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def insert(self, events: Sequence[Sequence[str]], size: int) -> tuple[int, float]:
        """Insert events, `size` a commit: how many, in how many seconds."""
        return len(events), self._ask({"ask": "insert", "events": events, "size": size})

    def project(self, folds: Mapping[str, Sequence[str]]) -> float:
        """One projection after another over all that was inserted, each with the types it reads; seconds."""
        return self._ask({"ask": "project", "folds": folds})

    def _ask(self, question: dict[str, Any]) -> float:
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("the peer was started without pipes")
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the peer ended; its error stands above")
        return float(json.loads(answer))


@contextmanager
def peer(connection: Mapping[str, str]) -> Iterator[Peer | None]:
    """The library on a database; None where its environment was not made."""
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
    """Events as the peer takes them: stream, type, serialised payload."""
    return [[request.stream, row.type, row.payload.decode()] for request in requests for row in encode_events(request)]
