"""Frames from archived segments, without the database, against the ordinary loop of the same run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from benchmarks.report import Target, at_least, at_most, medians
from eventlog.archive.columns import column_name, family_of
from eventlog.archive.scan import scan
from eventlog.archive.write import archive
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from projections.frame import ENVELOPE, Events, digest_part, part_of
from projections.framing import part_between
from projections.outcomes import FRAMES

from .server import Server

RATIO = "frames: from the archive / the loop's reading and folding"
TARGETS: dict[str, Target] = {RATIO: at_least(30), "frames: that differ from the log's": at_most(0)}


def frames(server: Server, project: str, repeats: int, loop: float) -> dict[str, float]:
    """Figures of all frames over the whole log. `loop` is the events a second of the ordinary loop."""
    engine, owner = server.engine(project), server.owner(project)
    store = PostgresStore(engine)
    head = store.head()
    with tempfile.TemporaryDirectory(prefix="flywheel-bench-") as place:
        began = time.perf_counter()
        archive(owner, Path(place), head)
        written_s = time.perf_counter() - began
        folder = Path(place) / project
        rate = medians({"": lambda: _made(folder, head)}, repeats)[""]
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        from_archive = {frame.name: digest_part(part_of(frame, archived(folder, frame.reads))) for frame in FRAMES}
    began = time.perf_counter()
    parts = [part_between(engine, store, frame, 0, head) for frame in FRAMES]
    live_s = time.perf_counter() - began
    differ = sum(digest_part(part) != from_archive[frame.name] for frame, part in zip(FRAMES, parts, strict=True))
    for each in (engine, owner):
        each.dispose()
    return {
        "archive, written, events/s": head / written_s,
        "archive, bytes an event": size / head,
        "frames, all from the archive, events/s": rate,
        "frames, all from the live table, events/s": head / live_s,
        RATIO: rate / loop,
        "frames: from the archive / from the live table": rate * live_s / head,
        "frames: that differ from the log's": float(differ),
    }


def _made(folder: Path, head: Position) -> int:
    for frame in FRAMES:
        part = part_of(frame, archived(folder, frame.reads))
        frame.read(part.lazy()).collect()
    return head


def archived(folder: Path, reads: Mapping[str, Mapping[str, pl.DataType]]) -> Events:
    """What a frame reads of each event type, from the segments of a project's folder."""
    return {
        kind: scan(folder, family_of(kind))
        .filter(pl.col("type") == kind)
        .select(*ENVELOPE, *(pl.col(column_name(tuple(path.split(".")))).alias(path) for path in fields))
        for kind, fields in reads.items()
    }
