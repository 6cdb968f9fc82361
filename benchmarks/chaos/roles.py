"""What each process under load does: write, fold, subscribe. Each takes up where the one before it was killed."""

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
"""Most writers append from one thread; this one from several, so that appends of one process meet."""

_PAUSE_S = 0.05
_REBUILD_ODDS = 0.002


@dataclass(frozen=True, slots=True)
class Plan:
    """What every process knows: where the log is, where to keep notes, how many events a second a thread writes."""

    url: str
    project: str
    folder: Path
    seed: int
    rate: float

    @property
    def stop(self) -> Path:
        """The file that tells them to end; it holds the head that subscribers shall reach, once that is known."""
        return self.folder / "stop"

    def is_stopped(self) -> bool:
        """Whether they shall end."""
        return self.stop.exists()


def errors(folder: Path) -> Counter[str]:
    """How often each kind of error was met, and what was said."""
    lines = [line for path in folder.glob("*.errors") for line in path.read_text(encoding="utf-8").splitlines()]
    return Counter(str(json.loads(line)[0]) for line in lines)


def _patiently(plan: Plan, name: str, act: Callable[[], T]) -> T:
    while True:
        try:
            return act()
        except Exception as error:  # noqa: BLE001 whatever it is, the promise is that trying again is right
            line = json.dumps([type(error).__name__, str(error)[:400]])
            with (plan.folder / f"{name}.errors").open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            time.sleep(_PAUSE_S)


def _engine(plan: Plan, name: str) -> Engine:
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it tells of every connection that was cut
    return _patiently(plan, name, lambda: open_engine(plan.url, plan.project))


def writer(plan: Plan, name: str) -> None:
    """Append what the journal says is pending, then one call after another; each until it is acknowledged."""
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
    """Fold whatever comes, and once in a while throw a projection away and fold it again."""
    folding = Projector(_engine(plan, name))
    draw = random.Random(f"{plan.seed}/{name}/{time.time_ns()}")  # noqa: S311 when a rebuild comes is not replayed
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
    """Follow the log from its start to the head that the stop file names; note gaps, and a digest of all that came."""
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
