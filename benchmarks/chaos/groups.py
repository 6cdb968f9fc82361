"""Races groups of appends for one stream while backends are killed, and checks that each is in the log whole or not."""

from __future__ import annotations

import logging
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

from sqlalchemy.exc import SQLAlchemyError

from eventlog.database import open_engine
from eventlog.errors import FlywheelError
from eventlog.events import MemoryQuarantined
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Conflict, Rejected

from .cluster import Cluster

_PROJECT = "groups"
_SHARED = "shared"
_WRITERS = 6
_LARGE = 120
"""Events of every third group's own stream: enough for the path by COPY."""
_BETWEEN_KILLS_S = 0.4
_PAUSE_S = 0.05


@dataclass(slots=True)
class _Told:
    """Names of the groups that one writer was told are written, or rejected."""

    written: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)


def groups(cluster: Cluster, seconds: float, seed: int) -> dict[str, float]:
    """Let writers race for so many seconds; return how many groups were written, rejected, and written by half."""
    url, stop, draw = cluster.project(_PROJECT), Event(), random.Random(seed)  # noqa: S311 repeatable choices
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    with ThreadPoolExecutor(_WRITERS) as pool:
        told = [pool.submit(_write, url, number, stop) for number in range(_WRITERS)]
        end = time.monotonic() + seconds
        kills = 0
        while time.monotonic() < end:
            time.sleep(_BETWEEN_KILLS_S * 2 * draw.random())
            kills += cluster.kill_backend(draw.random())
        cluster.up()
        stop.set()
        found = [each.result() for each in told]
    return {"groups: backends killed": float(kills), **_count(url, found)}


def _write(url: str, writer: int, stop: Event) -> _Told:
    """Append one group after another, each until it is written or rejected."""
    store, told, version, number = PostgresStore(open_engine(url, _PROJECT)), _Told(), 0, 0
    while not stop.is_set():
        number += 1
        name = f"{writer}-{number}"
        event = MemoryQuarantined(piece=name, kind="rewrite", restored=0, reason="chaos")
        own = (event,) * (_LARGE if number % 3 == 0 else 1)
        group = [
            Append(f"along/{name}", own, "chaos", expect=0, key=f"along {name}"),
            Append(_SHARED, (event,), "chaos", expect=version, key=f"shared {name}"),
        ]
        result = _until_answered(store, group)
        if isinstance(result, Rejected):
            told.rejected.add(name)
            version = next(each.actual for each in result.refusals if isinstance(each, Conflict))
        else:
            told.written.add(name)
            version += 1
    store.engine.dispose()
    return told


def _until_answered(store: PostgresStore, group: list[Append]) -> object:
    while True:
        try:
            return store.append_together(group)
        except (SQLAlchemyError, FlywheelError):
            time.sleep(_PAUSE_S)


def _count(url: str, told: list[_Told]) -> dict[str, float]:
    engine = open_engine(url, _PROJECT)
    shared, along = set[str](), dict[str, int]()
    for recorded in PostgresStore(engine).read():
        if not isinstance(recorded.event, MemoryQuarantined):
            continue
        if recorded.stream == _SHARED:
            shared.add(recorded.event.piece)
        else:
            along[recorded.event.piece] = along.get(recorded.event.piece, 0) + 1
    engine.dispose()
    written, rejected = ({name for each in told for name in getattr(each, kind)} for kind in ("written", "rejected"))
    partly = {name for name, amount in along.items() if amount not in {1, _LARGE}}
    return {
        "groups: written": float(len(written)),
        "groups: rejected": float(len(rejected)),
        "groups: written by half": float(len((shared ^ along.keys()) | partly)),
        "groups: lost": float(len(written - shared)),
        "groups: written though rejected": float(len(rejected & (shared | along.keys()))),
    }
