"""Rebuilds of all projections from the log, against the ordinary loop and against the `eventsourcing` library.

The slower arms read only the first events of the same log; rates in events per second are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from benchmarks.made import batches
from benchmarks.report import Target, at_least, at_most, medians
from eventlog.postgres import PostgresStore
from eventlog.store import START, Position
from projections import ALL
from projections.engine.builds import lags
from projections.engine.projection import digest_changes
from projections.engine.projector import Projector
from projections.engine.reader import columns
from projections.engine.rebuild import read_ahead
from projections.engine.views import PostgresViews

from . import ordinary
from .peer import MISSING, peer, plain
from .server import Server

READING, FOLDING, WRITING = (
    "ordinary loop, reading alone",
    "ordinary loop, reading and folding",
    "ordinary loop, reading, folding and writing rows",
)
TRANSPORT, WHOLE = "ours, reading the declared fields", "ours, the whole rebuild"
TARGETS: dict[str, Target] = {
    "rebuild: our reading / the loop's reading and folding": at_least(4),
    "rebuild: our whole rebuild / the whole loop with rows": at_least(2.5),
    "rebuild: folds that differ from the loop's": at_most(0),
    "rebuild: our whole rebuild / ProjectionRunner": at_least(100),
}

_FAR = 100_000
"""Number of events behind the head above which a rebuild is faster than catching up."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of events: in the rebuilt log, read by the loop, inserted into the peer, and in the large log."""

    events: int
    loop: int
    peer: int
    large: int


def rebuilds(
    server: Server, project: str, sizes: Sizes, repeats: int
) -> tuple[dict[str, float], dict[str, str], dict[str, float]]:
    """Figures over a filled log, the skipped arms with reasons, and the rates of all arms."""
    engine = server.engine(project)
    arms: dict[str, Callable[[], int]] = {
        READING: lambda: ordinary.read(server, project, sizes.loop),
        FOLDING: lambda: ordinary.fold(server, project, sizes.loop),
        WRITING: lambda: ordinary.rebuild(server, project, sizes.loop),
        TRANSPORT: lambda: transport(engine),
        WHOLE: lambda: whole(engine),
    }
    rates = medians(arms, repeats)
    figures = {f"rebuild, {name}, events/s": rate for name, rate in rates.items()}
    figures["rebuild: our reading / the loop's reading and folding"] = rates[TRANSPORT] / rates[FOLDING]
    figures["rebuild: our reading / the loop's reading alone"] = rates[TRANSPORT] / rates[READING]
    figures["rebuild: our whole rebuild / the whole loop with rows"] = rates[WHOLE] / rates[WRITING]
    figures["rebuild: our whole rebuild with rows / the loop without rows"] = rates[WHOLE] / rates[FOLDING]
    figures["rebuild: folds that differ from the loop's"] = _different(server, project, engine, Position(sizes.loop))
    left_out: dict[str, str] = {}
    runner = _runner(server, sizes.peer)
    if runner is None:
        left_out["rebuild by ProjectionRunner"] = MISSING
    else:
        figures["rebuild, ProjectionRunner, the same types for each fold, events/s"] = runner
        figures["rebuild: our whole rebuild / ProjectionRunner"] = rates[WHOLE] / runner
    engine.dispose()
    return figures, left_out, rates


def transport(engine: Engine) -> int:
    """Read the rows for all folds without folding; return the number of events passed."""
    store = PostgresStore(engine)
    head = store.head()
    for _ in read_ahead(engine, store, columns(ALL), START, head):
        pass
    return head


def whole(engine: Engine) -> int:
    """Rebuild all folds and write the rows; return the number of events."""
    return min(bookmark.position for bookmark in Projector(engine).rebuild([fold.name for fold in ALL]))


def caught_up(engine: Engine) -> Position:
    """Catch up all live builds to the head."""
    if max(lag.events for lag in lags(engine)) > _FAR:
        whole(engine)
    return Projector(engine).catch_up()


def _different(server: Server, project: str, engine: Engine, upto: Position) -> float:
    """Number of folds with different results in the loop and the projector."""
    views = PostgresViews(engine, PostgresStore(engine), upto)
    return float(sum(digest_changes(views.changes(fold)) != ordinary.digest(server, project, fold) for fold in ALL))


def _runner(server: Server, events: int) -> float | None:
    """Events per second when the library runs one projection per fold of ours, over the event types of that fold."""
    with peer(server.peer("peer_projections")) as other:
        if other is None:
            return None
        lines = [line for batch in batches(100, events // 100, prefix="runner") for line in plain(batch)]
        other.insert(lines, 100)
        there = {line[1] for line in lines}
        folds = {fold.name: sorted(there & fold.reads.keys()) for fold in ALL}
        return len(lines) / other.project({name: types for name, types in folds.items() if types})
