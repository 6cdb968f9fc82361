"""Rebuilds: ours against the ordinary loop in one run, catch-up lag, and reads as of a position.

`python -m benchmarks.rebuild [EVENTS]`; the default is 200,000. The ordinary loop is a server-side cursor, payloads to
dicts, the same Python folds, rows written by executemany.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from sqlalchemy import Engine, text

from api import embedded
from benchmarks.report import medians, report
from benchmarks.workload import ACTOR, entries, fill
from eventlog.chain import microseconds
from eventlog.codec import decode_event
from eventlog.database import open_engine, schema_of
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Position
from migrations.migrate import migrate
from projections import ALL
from projections.groups import GROUPS
from projections.projection import advance, keyed, latest
from projections.projector import Projector
from projections.reader import columns
from projections.rebuild import read_ahead
from projections.rows import Row, at_path, row_class
from projections.runs import RUNS
from projections.views import PostgresViews

_PAGE = 2000
_ONE_BY_ONE = 300
_CATCH_UPS = 200
TARGETS = {
    "transport, ours / loop": 4.0,
    "whole rebuild, ours / loop": 2.5,
    "whole rebuild, ours / event by event": 100.0,
}


def main() -> None:
    """Measure on a server of its own and print the table."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with tempfile.TemporaryDirectory(prefix="flywheel-bench-") as folder:
        found = embedded.up(Path(folder))
        try:
            owner = open_engine(found.owner_url)
            migrate(owner, app_role="flywheel")
            events = fill(owner, events)
            prepare(owner)
            engine = open_engine(found.app_url)
            figures = rebuilds(engine, owner, events) | reads(engine, events) | lag(engine)
            owner.dispose()
            engine.dispose()
        finally:
            embedded.down(Path(folder))
    report("rebuild", figures, TARGETS)


def prepare(owner: Engine) -> None:
    """The table that the ordinary loop writes into."""
    with owner.begin() as connection:
        connection.execute(text("CREATE TABLE plain_rows (projection text, key text, since bigint, state jsonb)"))
        connection.execute(text("ALTER TABLE plain_rows ADD PRIMARY KEY (projection, key, since)"))


def rebuilds(engine: Engine, owner: Engine, events: int) -> dict[str, float]:
    """Events a second of each way, and their ratios."""
    projector = Projector(engine)

    def rebuild() -> int:
        found = projector.rebuild([fold.name for fold in ALL])
        return min(bookmark.position for bookmark in found)

    def transport() -> int:
        for _ in read_ahead(engine, PostgresStore(engine), columns(ALL), 0, events):
            pass
        return events

    arms: dict[str, Callable[[], int]] = {
        "transport, loop": lambda: sum(len(page) for page in cursor_pages(engine, events)),
        "transport, ours": transport,
        "folding without rows, loop": lambda: ordinary(owner, events, are_written=False),
        "whole rebuild, ours": rebuild,
        "whole rebuild, loop": lambda: ordinary(owner, events),
        "whole rebuild, event by event": lambda: ordinary(owner, _ONE_BY_ONE, size=1),
    }
    rates = medians(arms, 3)
    figures = {f"{name}, events/s": rate for name, rate in rates.items()}
    figures["transport, ours / loop with its folds"] = rates["transport, ours"] / rates["folding without rows, loop"]
    figures["whole rebuild, ours / loop without rows"] = (
        rates["whole rebuild, ours"] / rates["folding without rows, loop"]
    )
    for what, other in (("transport", "loop"), ("whole rebuild", "loop"), ("whole rebuild", "event by event")):
        figures[f"{what}, ours / {other}"] = rates[f"{what}, ours"] / rates[f"{what}, {other}"]
    return figures | {"peak memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def driver(engine: Engine) -> psycopg.Connection[Any]:
    """A connection without our layers."""
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(url, options=f"-c search_path={schema_of(engine)}")


def cursor_pages(engine: Engine, events: int, size: int = _PAGE) -> Iterator[list[Any]]:
    """Whole events by a server-side cursor, their payloads as dicts."""
    with driver(engine) as connection, connection.cursor(name="loop") as cursor:
        cursor.execute(
            "SELECT position, version, stream, at, actor, type, payload FROM events"
            " WHERE position <= %s ORDER BY position",
            (events,),
        )
        while page := cursor.fetchmany(size):
            yield page


def ordinary(owner: Engine, events: int, size: int = _PAGE, *, are_written: bool = True) -> int:
    """Fold all projections the ordinary way, a transaction for each `size` events."""
    paths = columns(ALL).paths
    states: dict[str, dict[str, Any]] = {fold.name: {} for fold in ALL}
    with driver(owner) as sink:
        sink.execute("TRUNCATE plain_rows")
        sink.commit()
        for page in cursor_pages(owner, events, size):
            rows = [_row(found, paths[found[5]]) for found in page if found[5] in paths]
            with sink.cursor() as cursor:
                for fold in ALL:
                    changes = list(advance(fold, states[fold.name], keyed(fold, rows)))
                    if not are_written:
                        continue
                    if fold.stream_of is not None:
                        changes = list(latest(changes).values())
                    cursor.executemany(
                        "INSERT INTO plain_rows VALUES (%s, %s, %s, %s)",
                        [(fold.name, c.key, c.since, msgspec.json.encode(c.state).decode()) for c in changes],
                    )
            sink.commit()
    return events


def _row(found: Any, paths: tuple[str, ...]) -> Row:
    position, version, stream, at, actor, kind, payload = found
    made: Callable[..., Row] = row_class(kind, paths)
    return made(position, version, stream, microseconds(at), actor, *(at_path(payload, path) for path in paths))


def reads(engine: Engine, events: int) -> dict[str, float]:
    """Milliseconds of reads as of the middle of the log, against folding the whole log again."""
    began = time.perf_counter()
    Projector(engine).rebuild([fold.name for fold in ALL])
    whole = time.perf_counter() - began
    views = PostgresViews(engine, PostgresStore(engine), Position(events // 2))
    run, group = next(iter(views.find(RUNS))), next(iter(views.find(GROUPS)))
    asked: dict[str, Callable[[], object]] = {
        "a run": lambda: views.get(RUNS, run),
        "a group": lambda: views.get(GROUPS, group),
        "runs of a sweep": lambda: views.find(RUNS, run.split("__")[0] + "__"),
    }
    asked |= {f"all {fold.name}": (lambda fold=fold: views.find(fold)) for fold in ALL}  # type: ignore[misc]
    figures = {"whole re-fold, ms": whole * 1000}
    for name, ask in asked.items():
        rate = medians({"": lambda ask=ask: bool(ask()) or True}, 5)[""]  # type: ignore[misc]
        figures[f"as of the middle, {name}, ms"] = 1000 / rate
    return figures


def lag(engine: Engine) -> dict[str, float]:
    """Milliseconds from an append's answer to its being folded, for one run's events at a time, and of the append."""
    store, projector = PostgresStore(engine), Projector(engine)
    projector.catch_up()
    appends, lags = [], []
    for number, entry in enumerate(entries(7)):
        if number == _CATCH_UPS:
            break
        events = tuple(decode_event(kind, 1, msgspec.json.encode(payload).decode()) for kind, payload in entry.events)
        began = time.perf_counter()
        store.append([Append(f"{entry.stream}-again", events, ACTOR)])
        appended = time.perf_counter()
        projector.catch_up()
        appends.append(appended - began)
        lags.append(time.perf_counter() - appended)
    return {
        "append, p99, ms": sorted(appends)[-len(appends) // 100] * 1000,
        "catch-up, p50, ms": sorted(lags)[len(lags) // 2] * 1000,
        "catch-up, p99, ms": sorted(lags)[-len(lags) // 100] * 1000,
    }


if __name__ == "__main__":
    main()
