"""Reads of the past: each fold's view as of the middle of the log, against folding that fold again."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from sqlalchemy import Engine

from benchmarks.report import Target, at_most
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from projections import ALL
from projections.projection import AnyFold, replay
from projections.projector import Projector
from projections.views import PostgresViews

from .server import Server

READS = ("get", "find one sweep", "find all")
TARGETS: dict[str, Target] = {f"as of, {read}, worst fold / re-fold": at_most(1 / 50) for read in READS}

_SAMPLE = 20_000
"""Events before the middle among which a key of each fold is looked for."""


def reads(server: Server, project: str, repeats: int) -> tuple[dict[str, float], dict[str, str]]:
    """Milliseconds of each read of each fold, and its share of that fold's rebuild; folds without rows are left out."""
    engine = server.engine(project)
    store, projector = PostgresStore(engine), Projector(engine)
    middle = Position(projector.catch_up() // 2)
    figures: dict[str, float] = {}
    worst, empty = dict.fromkeys(READS, 0.0), []
    for fold in ALL:
        key = _key(store, fold, middle)
        if key is None:
            empty.append(fold.name)
            continue
        refold_s = _refold_s(engine, fold)
        figures[f"as of, {fold.name}: re-fold, ms"] = refold_s * 1000
        for read, act in _acts(PostgresViews(engine, store, middle), fold, key).items():
            took_s = statistics.median(_seconds(act) for _ in range(1 if read == "find all" else repeats))
            figures[f"as of, {fold.name}: {read}, ms"] = took_s * 1000
            worst[read] = max(worst[read], took_s / refold_s)
    engine.dispose()
    figures |= {f"as of, {read}, worst fold / re-fold": share for read, share in worst.items()}
    return figures, {"as of, folds without rows": f"this log has no event for {', '.join(empty)}"} if empty else {}


def _key(store: PostgresStore, fold: AnyFold, middle: Position) -> str | None:
    """The last key of a fold that anything happened to before the middle."""
    after = Position(max(0, middle - _SAMPLE))
    events = (event for event in store.read(after=after, upto=middle, types=tuple(fold.reads)))
    changes = replay(fold, events)
    return changes[-1].key if changes else None


def _refold_s(engine: Engine, fold: AnyFold) -> float:
    return _seconds(lambda: Projector(engine).rebuild([fold.name]))


def _acts(views: PostgresViews, fold: AnyFold, key: str) -> dict[str, Callable[[], object]]:
    sweep = "".join(key.partition("__")[:2])
    return {
        "get": lambda: views.get(fold, key),
        "find one sweep": lambda: views.find(fold, sweep),
        "find all": lambda: views.find(fold),
    }


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
