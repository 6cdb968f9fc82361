"""Data frames from archived segments, against the ordinary loop and against frames from the live table."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.report import Target, at_least, at_most, medians
from eventlog.archive.write import archive
from eventlog.postgres import PostgresStore
from projections.frames.frame import digest_part
from projections.frames.framing import make_parts, parts_by_row
from projections.frames.outcomes import FRAMES

from .server import Server

RATIO = "frames: from the archive / the loop's reading and folding"
TARGETS: dict[str, Target] = {RATIO: at_least(30), "frames: that differ from the log's": at_most(0)}


def frames(server: Server, project: str, repeats: int, loop: float) -> dict[str, float]:
    """Figures of all frames over the whole log. `loop` is the rate of the ordinary loop, in events per second."""
    engine, owner = server.engine(project), server.owner(project)
    with tempfile.TemporaryDirectory(prefix="flywheel-bench-") as place:
        store = PostgresStore(engine, Path(place))
        head = store.head()
        began = time.perf_counter()
        archive(owner, Path(place), head)
        written_s = time.perf_counter() - began

        def archived() -> int:
            for frame, part in zip(FRAMES, make_parts(engine, store, FRAMES, 0, head).parts, strict=True):
                frame.read(part.lazy()).collect()
            return head

        rate = medians({"": archived}, repeats)[""]
        size = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file())
        from_archive = [digest_part(part) for part in make_parts(engine, store, FRAMES, 0, head).parts]
        began = time.perf_counter()
        from_rows = [digest_part(part) for part in parts_by_row(engine, PostgresStore(engine), FRAMES, 0, head)]
        live_s = time.perf_counter() - began
    for each in (engine, owner):
        each.dispose()
    return {
        "archive, written, events/s": head / written_s,
        "archive, bytes an event": size / head,
        "frames, all from the archive, events/s": rate,
        "frames, all from the live table, events/s": head / live_s,
        RATIO: rate / loop,
        "frames: from the archive / from the live table": rate * live_s / head,
        "frames: that differ from the log's": float(
            sum(ours != theirs for ours, theirs in zip(from_archive, from_rows, strict=True))
        ),
    }
