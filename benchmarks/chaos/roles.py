"""Roles of the processes under load: writer, projector, subscriber. A restarted process continues the work."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine

from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from eventlog.store import Position, Recorded
from projections import ALL
from projections.engine.projector import Projector

from .intentions import Journal, call

T = TypeVar("T")

THREADS = {"writer-1": 4}
"""Threads of writers with more than one, so that appends of one process are concurrent."""

_PAUSE_S = 0.05
_REBUILD_ODDS = 0.002


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters shared by all processes: URL of the log, folder of notes, and events per second of a writer thread."""

    url: str
    project: str
    folder: Path
    seed: int
    rate: float

    @property
    def stop(self) -> Path:
        """The stop file, which tells the processes to end; it later holds the head that subscribers must reach."""
        return self.folder / "stop"

    def is_stopped(self) -> bool:
        """True if the processes must end."""
        return self.stop.exists()


def errors(folder: Path) -> Counter[str]:
    """Number of errors of each kind and message."""
    lines = [line for path in folder.glob("*.errors") for line in path.read_text(encoding="utf-8").splitlines()]
    return Counter(str(json.loads(line)[0]) for line in lines)


def _patiently(plan: Plan, name: str, act: Callable[[], T]) -> T:
    while True:
        try:
            return act()
        except Exception as error:  # noqa: BLE001 a retry must be correct after any error
            line = json.dumps([type(error).__name__, str(error)[:400]])
            with (plan.folder / f"{name}.errors").open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            time.sleep(_PAUSE_S)


def _engine(plan: Plan, name: str) -> Engine:
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it logs every cut connection
    return _patiently(plan, name, lambda: open_engine(plan.url, plan.project))


def writer(plan: Plan, name: str) -> None:
    """Append the pending call of the journal, then one call after another, retrying each until it is acknowledged."""
    store = PostgresStore(_engine(plan, name))
    lines = [f"{name}{letter}" for letter in "abcdefgh"[: THREADS.get(name, 1)]]
    threads = [threading.Thread(target=_write, args=(plan, line, store)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _write(plan: Plan, line: str, store: PostgresStore) -> None:
    journal = Journal(plan.folder / f"{line}.journal")
    while journal.is_pending or not plan.is_stopped():
        began = time.monotonic()
        if not journal.is_pending:
            journal.intend(journal.number + 1)
        requests = call(plan.seed, line, journal.number)
        journal.acknowledge(_patiently(plan, line, lambda asked=requests: store.append(asked)))  # type: ignore[misc]
        planned_s = sum(len(request.events) for request in requests) / plan.rate
        time.sleep(max(0.0, began + planned_s - time.monotonic()))


def projector(plan: Plan, name: str) -> None:
    """Fold new events, and occasionally drop a projection and rebuild it."""
    folding = Projector(_engine(plan, name))
    draw = random.Random(f"{plan.seed}/{name}/{time.time_ns()}")  # noqa: S311 the time of a rebuild is not replayed
    while not plan.is_stopped():
        _patiently(plan, name, folding.catch_up)
        if draw.random() < _REBUILD_ODDS:
            again = draw.choice(ALL).name
            _patiently(plan, name, lambda chosen=again: folding.rebuild([chosen]))  # type: ignore[misc]
        time.sleep(draw.random() * _PAUSE_S)


@dataclass(slots=True)
class _Seen:
    last: int = 0
    gaps: int = 0
    backwards: int = 0
    at: float = 0.0

    def take(self, batch: Sequence[Recorded], total: hashlib._Hash) -> None:
        for event in batch:
            self.gaps += event.position != self.last + 1
            self.backwards += event.at.timestamp() < self.at
            self.last, self.at = event.position, event.at.timestamp()
            total.update(event.digest)


def subscriber(plan: Plan, name: str) -> None:
    """Follow the log from its start to the head in the stop file; record gaps, and a digest of all received events."""
    store = PostgresStore(_engine(plan, name))
    seen, total = _Seen(), hashlib.sha256()

    def is_over(position: Position) -> bool:
        said = plan.stop.read_text(encoding="utf-8") if plan.is_stopped() else ""
        return bool(said) and position >= int(said)

    def follow() -> None:
        for batch in store.subscribe(after=Position(seen.last), until=is_over):
            seen.take(batch, total)

    _patiently(plan, name, follow)
    found = {"last": seen.last, "gaps": seen.gaps, "backwards": seen.backwards, "digest": total.hexdigest()}
    (plan.folder / f"{name}.seen").write_text(json.dumps(found), encoding="utf-8")
