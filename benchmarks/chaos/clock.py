"""Turns the server's clock back and forth, and checks that `at` never decreases and that the chain verifies."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from sqlalchemy import text

from api.embedded.account import ENVIRONMENT
from benchmarks.made import appends_of_run
from eventlog.chain import GENESIS, verify_chain
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from eventlog.store import START, Committed

from .cluster import Cluster
from .skipped import Skipped

OFFSETS = ("+0", "+1h", "-2h", "+0", "-1d", "+5s", "-5s", "+0")


def clock_jumps(folder: Path) -> dict[str, float]:
    """Append under each clock offset; count how often the clock went back, and how often `at` did. Raises Skipped."""
    offset = folder / "offset"
    offset.parent.mkdir()
    offset.write_text(OFFSETS[0], encoding="utf-8")
    cluster = Cluster(folder / "home")
    with patch.dict(ENVIRONMENT, faked(offset)):
        try:
            return _turn(cluster, offset)
        finally:
            cluster.down()


def faked(offset: Path) -> Mapping[str, str]:
    """Environment of a server whose clock is shifted by the offset in a file. Raises Skipped without libfaketime."""
    found = importlib.util.find_spec("libfaketime")
    places = found.submodule_search_locations if found is not None else None
    libraries = sorted(Path(next(iter(places))).rglob("libfaketime.so*")) if places else []
    if platform.system() != "Linux" or not libraries:
        raise Skipped("there is no libfaketime for this machine (it comes with `make setup` on Linux)")
    return {
        "LD_PRELOAD": str(libraries[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _turn(cluster: Cluster, offset: Path) -> dict[str, float]:
    engine = open_engine(cluster.project("clock"), "clock")
    store = PostgresStore(engine)
    told, committed = [], 0
    for number, shift in enumerate(OFFSETS):
        offset.write_text(shift, encoding="utf-8")
        with engine.connect() as connection:
            told.append(connection.execute(text("SELECT clock_timestamp()")).scalar_one())
        for run in range(number * 10, number * 10 + 10):
            outcomes = store.append(appends_of_run(run, "clock"))
            committed += sum(isinstance(outcome, Committed) for outcome in outcomes)
    rows = list(verify_chain(store.read_stored(), after=START, previous=GENESIS))
    engine.dispose()
    jumps = sum(later < earlier for earlier, later in pairwise(told))
    if not jumps:
        raise Skipped("libfaketime did not move the server's clock")
    return {
        "clock: jumps back": float(jumps),
        "clock: appends committed": float(committed),
        "clock: events whose time goes back": float(sum(row.at < before.at for before, row in pairwise(rows))),
    }
