"""Partitions: a log split at the boundaries of its archived segments, and the frame parts of one segment.

A partition needs only the archive's files, no database, so any engine that maps a function over values can process it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from eventlog.archive.columns import event_family
from eventlog.archive.manifest import SegmentManifest
from eventlog.archive.read import collect_frame
from eventlog.archive.scan import scan_segment
from eventlog.errors import NewerSchemaVersion
from eventlog.events import EVENT_TYPES
from eventlog.store import Position

from ..errors import FrameDiffers
from .frame import ENVELOPE, Frame, Reads, column_of, part_of
from .outcomes import FRAMES

Span = tuple[int, int]
"""The positions in (after, upto]."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Archived positions (after, upto] of one segment in `folder`, and the (name, version) of the frames to compute."""

    folder: Path
    manifest: SegmentManifest
    after: int
    upto: int
    frames: tuple[tuple[str, int], ...]

    @property
    def events(self) -> int:
        """Number of positions."""
        return self.upto - self.after


def cut_partitions(
    folder: Path, manifests: Iterable[SegmentManifest], frames: Sequence[Frame], after: int, upto: int
) -> tuple[tuple[Partition, ...], tuple[Span, ...]]:
    """Split (after, upto] into partitions and the spans between them. `manifests` are in order of position."""
    wanted = tuple((frame.name, frame.version) for frame in frames)
    partitions, spans, reached = [], [], after
    for manifest in manifests:
        start, end = max(after, manifest.first - 1), min(upto, manifest.last)
        if end <= start:
            continue
        if start > reached:
            spans.append((reached, start))
        partitions.append(Partition(folder, manifest, start, end, wanted))
        reached = end
    return tuple(partitions), (*spans, (reached, upto)) if reached < upto else tuple(spans)


def parts_of(partition: Partition) -> tuple[pl.DataFrame, ...]:
    """Compute the part of each frame of a partition. The segment is read once, with the union of all columns.

    Raises FrameDiffers, NewerSchemaVersion, ArchiveMissing, SegmentDamaged.
    """
    frames = [_frame_by_name(name, version) for name, version in partition.frames]
    union: dict[str, dict[str, pl.DataType]] = {}
    for frame in frames:
        for kind, fields in frame.reads.items():
            union.setdefault(kind, {}).update(fields)
    found = archived_events(partition, union)
    return tuple(part_of(frame, found) for frame in frames)


def _frame_by_name(name: str, version: int) -> Frame:
    found = next((frame for frame in FRAMES if frame.name == name), None)
    if found is None or found.version != version:
        raise FrameDiffers(frame=name, actual="none" if found is None else found.version, expected=version)
    return found


def archived_events(partition: Partition, reads: Reads) -> Mapping[str, pl.LazyFrame]:
    """The events of a partition, from the typed columns; equal to `events_of` on their rows."""
    families: dict[str, dict[str, Mapping[str, pl.DataType]]] = {}
    for kind, fields in reads.items():
        families.setdefault(event_family(kind), {})[kind] = fields
    found: dict[str, pl.LazyFrame] = {}
    for family, own in families.items():
        rows = _rows(partition, family, own)
        for kind, fields in own.items():
            columns = [pl.col(column_of(path)).cast(dtype) for path, dtype in fields.items()]
            found[kind] = rows.lazy().filter(pl.col("type") == kind).select(*ENVELOPE, *columns)
    return found


def _rows(partition: Partition, family: str, reads: Reads) -> pl.DataFrame:
    """The wanted rows and columns of a family, in one frame. Raises NewerSchemaVersion, as reading the events does."""
    paths = sorted({column_of(path) for fields in reads.values() for path in fields})
    after, upto = Position(partition.after), Position(partition.upto)
    scanned = scan_segment(partition.folder, partition.manifest, family, after=after, upto=upto)
    wanted = scanned.filter(pl.col("type").is_in(list(reads))).select(*ENVELOPE, "type", "schema_version", *paths)
    rows = collect_frame(partition.manifest, wanted)
    newest = rows.group_by("type").agg(pl.col("schema_version").max()).sort("type")
    for kind, version in newest.iter_rows():
        if version > EVENT_TYPES[kind].schema_version:
            raise NewerSchemaVersion(type=kind, actual=version, expected=EVENT_TYPES[kind].schema_version)
    return rows
