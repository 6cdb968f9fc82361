"""`make bench-scale`: a decision, a page of runs, the champion and a start, in a log and in one ten times longer."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from psycopg import sql
from rich.console import Console

from api.controllers.fast import Controller
from api.house import House
from api.queries.champion import show_champion
from api.queries.runs import RunFilter, list_runs
from benchmarks.log.server import Server, own_server, version
from benchmarks.made import RUNS_A_SWEEP
from benchmarks.report import Target, at_most, report

from .planting import COURSE, EVENTS_A_RUN, SITE, PlantedSite, house_of, plant

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "scale.md"
FACTOR = 10
_LEAST = EVENTS_A_RUN * RUNS_A_SWEEP
_LOGS = ("shorter", "longer")

ACTS = ("one decision of the controller", "one page of runs", "champion show", "the start of run")
STATE = "state / log, bytes"
TARGETS: dict[str, Target] = {
    **{f"{act}, longer log / shorter log": at_most(1.5) for act in ACTS},
    **{f"{log} log: {STATE}": at_most(0.5) for log in _LOGS},
}


class Silent:
    """A reporter that shows nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run for about a minute, on a tenth of the lengths.")] = False,
    events: Annotated[int, typer.Option(min=_LEAST, help="Minimum number of events of the shorter log.")] = 160_000,
    repeats: Annotated[int, typer.Option(min=1, help="Times that each is measured in each log, in turn.")] = 9,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Measure the same in two logs on a new embedded server."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    length, began = events // FACTOR if quick else events, time.monotonic()
    with own_server() as server:
        houses = {log: _planted(server, log, length * (FACTOR if log == "longer" else 1)) for log in _LOGS}
        figures: dict[str, float] = {f"{log} log: events": house.store.head() for log, house in houses.items()}
        figures |= _times(server, houses, repeats)
        for log in _LOGS:
            figures |= _bytes(server, log)
        note = (
            f"PostgreSQL {version(houses['shorter'].engine)}, fsync on, {os.cpu_count()} cores; runs of {EVENTS_A_RUN}"
            f" events, {RUNS_A_SWEEP} to a sweep; medians of {repeats} interleaved repeats."
        )
        for house in houses.values():
            house.close()
    figures["minutes in all"] = (time.monotonic() - began) / 60
    report("scale", figures, TARGETS, page=PAGE if write else None, note=note)


def controller(house: House) -> Controller:
    """A controller that stops before its first step."""
    return Controller(house, PlantedSite(), SITE, COURSE, Silent(), is_told_to_stop=lambda: True)  # type: ignore[arg-type]


def _planted(server: Server, log: str, events: int) -> House:
    Console(stderr=True).print(f"planting the {log} log of {events:,} events")
    return plant(server, log, events, partial(controller))


def _times(server: Server, houses: dict[str, House], repeats: int) -> dict[str, float]:
    """Milliseconds of each act in each log, and the ratios."""
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(repeats):
        for log, house in houses.items():
            for act, do in zip(ACTS, _acts(server, log, house), strict=True):
                began = time.perf_counter()
                do()
                found.setdefault((act, log), []).append((time.perf_counter() - began) * 1000)
    medians = {key: statistics.median(took) for key, took in found.items()}
    figures = {f"{act}, {log} log, ms": medians[act, log] for act in ACTS for log in _LOGS}
    return figures | {
        f"{act}, longer log / shorter log": medians[act, "longer"] / medians[act, "shorter"] for act in ACTS
    }


def _acts(server: Server, log: str, house: House) -> tuple[Callable[[], object], ...]:
    return (
        lambda: controller(house).next_step(house.views()),
        lambda: list_runs(house.views(), RunFilter(), after=None, limit=100),
        lambda: _in_a_new_house(server, log, lambda own: show_champion(own.views())),
        lambda: _in_a_new_house(server, log, lambda own: controller(own).run()),
    )


def _in_a_new_house(server: Server, log: str, do: Callable[[House], object]) -> None:
    house = house_of(server, log)
    try:
        do(house)
    finally:
        house.close()


def _bytes(server: Server, log: str) -> dict[str, float]:
    """Bytes of the log's tables and of the folds' table, indexes included."""
    statement = """SELECT (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits
        WHERE inhparent = 'events'::regclass), pg_total_relation_size('stream_versions')
        + pg_total_relation_size('append_keys'), pg_total_relation_size('fold_rows')"""
    with server.plain(log) as connection:
        row = connection.execute(sql.SQL(statement)).fetchone()
    events, beside, state = map(float, row or (1, 0, 0))
    return {
        f"{log} log: events, MB": events / 1e6,
        f"{log} log: stream versions and append keys, MB": beside / 1e6,
        f"{log} log: state, MB": state / 1e6,
        f"{log} log: state / events alone, bytes": state / events,
        f"{log} log: {STATE}": state / (events + beside),
    }


if __name__ == "__main__":
    typer.run(main)
