"""The shell around frames: parts of the log page by page, merged; the newest is remembered and added to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl
from sqlalchemy import Engine

from eventlog.store import EventStore, Position

from .compare import Compared
from .frame import Frame, digest_part, events_of, merged, part_of
from .outcomes import FRAMES
from .reader import columns_of
from .rebuild import read_ahead

_MERGED_AT_ONCE = 16


@dataclass(frozen=True)
class FrameViews:
    """Reads of frames as of a position. What was read is remembered, so that a later read adds what came since."""

    engine: Engine
    store: EventStore
    remembered: dict[str, tuple[int, pl.DataFrame]] = field(default_factory=dict)

    def read(self, frame: Frame, upto: Position) -> pl.DataFrame:
        """The rows of a frame as of a position, in their order."""
        after, before = self.remembered.get(frame.name, (0, merged(frame, ())))
        if after > upto:
            return frame.read(part_between(self.engine, self.store, frame, 0, upto).lazy()).collect()
        found = merged(frame, (before, part_between(self.engine, self.store, frame, after, upto)))
        self.remembered[frame.name] = (upto, found)
        return frame.read(found.lazy()).collect()


def part_between(
    engine: Engine,
    store: EventStore,
    frame: Frame,
    after: int,
    upto: int,
    progress: Callable[[int], object] | None = None,
) -> pl.DataFrame:
    """The part of a frame that the positions in (after, upto] make, page by page."""
    parts: list[pl.DataFrame] = []
    for reached, rows in read_ahead(engine, store, columns_of((frame.reads,)), after, upto):
        parts.append(part_of(frame, events_of(frame.reads, rows)))
        if len(parts) == _MERGED_AT_ONCE:
            parts = [merged(frame, parts)]
        if progress is not None:
            progress(reached)
    return merged(frame, parts)


def compare_frames(
    engine: Engine, store: EventStore, upto: Position, frames: Sequence[Frame] = FRAMES
) -> Iterator[Compared]:
    """Make each frame of the whole log and of two parts of it, and compare digests."""
    for frame in frames:
        whole = part_between(engine, store, frame, 0, upto)
        middle = upto // 2
        later, earlier = (part_between(engine, store, frame, *span) for span in ((middle, upto), (0, middle)))
        ours, theirs = digest_part(whole), digest_part(merged(frame, (later, earlier)))
        differs = None if ours == theirs else f"the parts before and behind position {middle}"
        yield Compared(frame.name, frame.version, upto, whole.height, ours, theirs, differs)
