"""Scan the typed columns of an event family over all segments of a folder. Needs no database."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from ..events import EVENT_TYPES
from ..store import START, Position, Stored
from ..upcast import upcast
from .columns import DTYPES, ENVELOPE, cells, columns_of_family, schema_of_family
from .manifest import SegmentFile, SegmentManifest, read_manifest, segment_folders
from .read import scan_segment_file


def scan(folder: Path, family: str, *, after: Position = START, upto: Position | None = None) -> pl.LazyFrame:
    """A family's events at positions in (after, upto], in order: envelope and typed columns (`columns_of_family`).

    `folder` is a project's: `<archive>/<project>`. Rows are read when the frame is collected; a filter on `position`
    or `type` skips row groups. Each file is compared with its SHA-256 once in a process. Columns are those of the
    current vocabulary: typed columns of a file with another vocabulary or older schema versions are recomputed from
    its upcast payloads. Raises ArchiveMissing, SegmentDamaged.
    """
    manifests = (read_manifest(place) for place in segment_folders(folder))
    parts = [scan_segment(folder, manifest, family, after=after, upto=upto) for manifest in manifests]
    return pl.concat([pl.LazyFrame(schema=schema_of_family(family)), *parts])


def scan_segment(
    folder: Path | None,
    manifest: SegmentManifest,
    family: str,
    *,
    after: Position = START,
    upto: Position | None = None,
) -> pl.LazyFrame:
    """As `scan`, for the one segment that `manifest` describes."""
    last = Position(2**62) if upto is None else upto
    parts = [pl.LazyFrame(schema=schema_of_family(family))]
    for file in manifest.files_holding(after, last):
        if file.family == family:
            part = scan_segment_file(folder, manifest, file)
            inside = after < file.first and file.last <= last
            part = part if inside else part.filter(pl.col("position").is_between(after + 1, last))
            parts.append(
                part.select(list(schema_of_family(family))) if _is_current(file) else _typed_again(part, family)
            )
    return pl.concat(parts)


def _is_current(file: SegmentFile) -> bool:
    """True if the file's typed columns are those of the current vocabulary."""
    columns = {column.name: column.kind for column in columns_of_family(file.family)}
    known = (EVENT_TYPES[kind].schema_version <= old for kind, old in file.oldest.items() if kind in EVENT_TYPES)
    return file.columns == columns and all(known)


def _typed_again(part: pl.LazyFrame, family: str) -> pl.LazyFrame:
    envelope = part.select(list(ENVELOPE))
    return envelope.map_batches(lambda batch: _retype(batch, family), schema=schema_of_family(family), streamable=True)


def _retype(batch: pl.DataFrame, family: str) -> pl.DataFrame:
    rows = [Stored(**row) for row in batch.iter_rows(named=True)]
    found = cells(family, rows, [_current(row) for row in rows])
    typed = [pl.Series(column.name, found[column.name], DTYPES[column.kind]) for column in columns_of_family(family)]
    return batch.with_columns(typed)


def _current(row: Stored) -> dict[str, object]:
    """The payload of a row, upcast to the current vocabulary; unchanged if its type or version is newer."""
    payload: dict[str, object] = json.loads(row.payload)
    model = EVENT_TYPES.get(row.type)
    if model is None or row.schema_version >= model.schema_version:
        return payload
    return upcast(row.type, row.schema_version, model.schema_version, payload)
