"""Compute frames: parts from archived segments and, page by page, from the events table, extended incrementally."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
from sqlalchemy import Engine

from eventlog.archive.segments import live_from, segments
from eventlog.database import project_of
from eventlog.postgres import PostgresStore
from eventlog.store import EventStore, Position

from ..engine.compare import Compared
from ..engine.reader import columns_of_reads
from ..engine.rebuild import read_ahead
from .engines import MapOver, here
from .frame import Frame, Tiers, add_part, digest_part, events_of, extend_part, merge_parts, merge_tiers, part_of
from .outcomes import FRAMES
from .partitions import Partition, Span, cut_partitions, parts_of

Progress = Callable[[int], object]
"""Called with the number of positions processed so far."""

Select = Callable[[pl.LazyFrame], pl.LazyFrame]
"""Keeps some rows of a part."""


@dataclass(frozen=True)
class FrameViews:
    """Reads frames as of a position. Caches the last part of each frame, so that a later read only adds new events."""

    engine: Engine
    store: PostgresStore
    remembered: dict[str, tuple[int, pl.DataFrame]] = field(default_factory=dict)

    def read(
        self, frame: Frame, upto: Position, *, select: Select | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """The rows of a frame as of a position, in the frame's order: those of a selected part, the first `limit`."""
        part = self._whole(frame, upto).lazy()
        rows = frame.read(part if select is None else select(part))
        return (rows if limit is None else rows.head(limit)).collect()

    def _whole(self, frame: Frame, upto: Position) -> pl.DataFrame:
        after, before = self.remembered.get(frame.name, (0, merge_parts(frame, ())))
        if after > upto:
            return self._part(frame, 0, upto)
        found = extend_part(frame, before, self._part(frame, after, upto))
        self.remembered[frame.name] = (upto, found)
        return found

    def _part(self, frame: Frame, after: int, upto: int) -> pl.DataFrame:
        return make_parts(self.engine, self.store, (frame,), after, upto).parts[0]


@dataclass(frozen=True, slots=True)
class FrameParts:
    """The part of each frame, and the number of archived partitions computed at each place of the engine."""

    parts: tuple[pl.DataFrame, ...]
    places: Mapping[str, int]


def make_parts(
    engine: Engine,
    store: PostgresStore,
    frames: Sequence[Frame],
    after: int,
    upto: int,
    *,
    over: MapOver = here,
    progress: Progress = int,
) -> FrameParts:
    """Compute the parts of positions in (after, upto]: archived ones by partition on an engine, the rest here.

    Raises ArchiveMissing, SegmentDamaged, NewerSchemaVersion, EngineUnusable, FrameDiffers.
    """
    partitions, spans = plan_reads(engine, store, frames, after, upto)
    tiers: list[Tiers] = [() for _ in frames]
    places: Counter[str] = Counter()
    done = 0
    for index, place, parts in over(parts_of, partitions):
        tiers = _with(frames, tiers, parts)
        places[place] += 1
        done += partitions[index].events
        progress(done)
    for start, finish in spans:
        for reached, parts in _pages(engine, store, frames, start, finish):
            tiers = _with(frames, tiers, parts)
            progress(done + reached - start)
        done += finish - start
    return FrameParts(tuple(merge_tiers(frame, own) for frame, own in zip(frames, tiers, strict=True)), places)


def plan_reads(
    engine: Engine, store: PostgresStore, frames: Sequence[Frame], after: int, upto: int
) -> tuple[tuple[Partition, ...], tuple[Span, ...]]:
    """Split (after, upto] into archived partitions (folder present, or dropped from the table) and spans of rows."""
    if store.archive is None:
        return (), ((after, upto),) if after < upto else ()
    folder, live = store.archive / project_of(engine), live_from(engine)
    found = segments(engine, Position(after), Position(upto))
    usable = (one for one in found if one.first < live or (folder / one.folder).is_dir())
    return cut_partitions(folder, usable, frames, after, upto)


def parts_by_row(
    engine: Engine, store: EventStore, frames: Sequence[Frame], after: int, upto: int
) -> tuple[pl.DataFrame, ...]:
    """Compute the same parts from rows only, page by page through the store."""
    tiers: list[Tiers] = [() for _ in frames]
    for _, parts in _pages(engine, store, frames, after, upto):
        tiers = _with(frames, tiers, parts)
    return tuple(merge_tiers(frame, own) for frame, own in zip(frames, tiers, strict=True))


def _pages(
    engine: Engine, store: EventStore, frames: Sequence[Frame], after: int, upto: int
) -> Iterator[tuple[int, tuple[pl.DataFrame, ...]]]:
    wanted = columns_of_reads([frame.reads for frame in frames])
    for reached, rows in read_ahead(engine, store, wanted, after, upto):
        yield reached, tuple(part_of(frame, events_of(frame.reads, rows)) for frame in frames)


def _with(frames: Sequence[Frame], tiers: Sequence[Tiers], parts: Sequence[pl.DataFrame]) -> list[Tiers]:
    return [add_part(frame, own, part) for frame, own, part in zip(frames, tiers, parts, strict=True)]


def compare_frames(
    engine: Engine,
    store: PostgresStore,
    upto: Position,
    frames: Sequence[Frame] = FRAMES,
    *,
    over: MapOver = here,
    progress: Progress = int,
) -> Iterator[Compared]:
    """Compute the frames by partition, and again from the rows of two halves of the log, and compare digests."""
    if not frames:
        return
    wholes = make_parts(engine, store, frames, 0, upto, over=over, progress=progress).parts
    middle = upto // 2
    halves = [parts_by_row(engine, store, frames, *span) for span in ((middle, upto), (0, middle))]
    for frame, whole, later, earlier in zip(frames, wholes, *halves, strict=True):
        ours, theirs = digest_part(whole), digest_part(merge_parts(frame, (later, earlier)))
        differs = None if ours == theirs else f"the parts before and after position {middle}"
        yield Compared(frame.name, frame.version, upto, whole.height, ours, theirs, differs)
