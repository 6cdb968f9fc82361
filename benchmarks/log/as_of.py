"""Reads of each fold as of the middle of the log, against a re-fold of all folds and of that fold alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine

from benchmarks.report import Target, at_most
from eventlog.postgres import PostgresStore
from eventlog.store import START, Position
from projections import ALL
from projections.engine.projection import AnyFold, advance, rows_with_keys
from projections.engine.reader import columns
from projections.engine.rebuild import read_ahead
from projections.engine.views import PostgresViews

from .rebuilding import caught_up
from .server import Server

READS = ("get", "find one sweep", "find all")
_ALL, _ALONE = "a full re-fold", "a re-fold of that fold alone, in memory"
TARGETS: dict[str, Target] = {
    **{f"as of: {read}, worst fold / {_ALL}": at_most(1 / 50) for read in READS},
    f"as of: get, worst fold / {_ALONE}": at_most(1 / 50),
}

_SAMPLE = 1_000_000
"""Maximum number of events to re-fold; for a larger log the time is extrapolated linearly."""

Keys = dict[str, Any]


def reads(server: Server, project: str, repeats: int, whole_s: float) -> tuple[dict[str, float], dict[str, str]]:
    """Milliseconds of each read of each fold, and ratios to re-folds; folds without rows are skipped.

    `whole_s` is the time of a rebuild of all folds over the same log, in seconds.
    """
    engine = server.engine(project)
    store = PostgresStore(engine)
    head = caught_up(engine)
    sample, middle = min(head, _SAMPLE), Position(head // 2)
    figures: dict[str, float] = {"as of: events in the log": head, "as of: events folded again for a rate": sample}
    slowest, worst, empty = dict.fromkeys(READS, 0.0), dict.fromkeys(READS, 0.0), []
    for fold in ALL:
        found, seconds = refold(engine, store, fold, sample)
        key = next(iter(found), None)
        if key is None:
            empty.append(fold.name)
            continue
        refold_s = seconds * head / sample
        figures[f"as of, {fold.name}: re-fold, ms"] = refold_s * 1000
        for read, act in _acts(PostgresViews(engine, store, middle), fold, key).items():
            took_s = statistics.median(_seconds(act) for _ in range(min(repeats, 3)))
            figures[f"as of, {fold.name}: {read}, ms"] = took_s * 1000
            slowest[read] = max(slowest[read], took_s)
            worst[read] = max(worst[read], took_s / refold_s)
    engine.dispose()
    figures |= {f"as of: {read}, worst fold / {_ALL}": took_s / whole_s for read, took_s in slowest.items()}
    figures |= {f"as of: {read}, worst fold / {_ALONE}": share for read, share in worst.items()}
    return figures, {"as of, folds without rows": f"this log has no event for {', '.join(empty)}"} if empty else {}


def refold(engine: Engine, store: PostgresStore, fold: AnyFold, events: int) -> tuple[Keys, float]:
    """Fold the first events in memory with our reader; return the states and the seconds."""
    states: Keys = {}
    began = time.perf_counter()
    for _, rows in read_ahead(engine, store, columns((fold,)), START, events):
        for _ in advance(fold, states, rows_with_keys(fold, rows)):
            pass
    return states, time.perf_counter() - began


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
