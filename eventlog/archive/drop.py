"""Drop archived positions from the events table after verifying the files that hold them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from ..database import first_line, project_of
from ..markers import keep_markers
from ..store import Position
from .errors import ArchiveBusy, DropRefused
from .manifest import SegmentManifest
from .segments import check_owner, live_from, lock_archive, segments
from .verify import verify_segment

PATIENCE_S = 5
_REFUSED = "55000"
"""SQLSTATE object_not_in_prerequisite_state: drop_archived() raises it if the table and the segments differ."""
_LOCKED = "55P03"

Progress = Callable[[], object]
"""Called once for each event."""


def droppable(owner: Engine, upto: Position) -> tuple[SegmentManifest, ...]:
    """The archived segments that are still in the table and end at or before a position."""
    return tuple(found for found in segments(owner, Position(live_from(owner) - 1), upto) if found.last <= upto)


def drop(
    owner: Engine, folder: Path, upto: Position, *, progress: Progress = int, patience_s: int = PATIENCE_S
) -> Position:
    """Drop every archived segment that ends at or before `upto`, and return the last position dropped so far.

    First the files are verified event by event. Then the database, holding the append lock, compares counts and chain
    with its rows and drops the partitions. The newest event is never dropped. Waits at most `patience_s` for readers.
    Raises NotTheOwner, ArchiveMissing, SegmentDamaged, DropRefused, ArchiveBusy; then nothing was dropped.
    """
    check_owner(owner)
    found = droppable(owner, upto)
    for manifest in found:
        verify_segment(folder / project_of(owner), manifest, progress)
    if not found:
        return Position(live_from(owner) - 1)
    last = Position(found[-1].last)
    try:
        with owner.begin() as connection:
            connection.execute(text(f"SET LOCAL lock_timeout = '{patience_s}s'"))
            lock_archive(connection)
            keep_markers(connection, last)
            connection.execute(text("SELECT drop_archived(:upto)"), {"upto": last})
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state == _LOCKED:
            raise ArchiveBusy(actual=first_line(error), expected=f"{patience_s} s") from error
        if state == _REFUSED:
            raise DropRefused(actual=first_line(error), upto=last) from error
        raise
    return last
