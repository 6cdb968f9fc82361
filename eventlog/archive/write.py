"""Write segments: positions of the table become a folder of Parquet files, with one rename and one transaction each."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl
from sqlalchemy import Connection, Engine, text

from ..chain import verify_chain
from ..database import project_of
from ..disk import flush_to_disk
from ..postgres import PostgresStore
from ..store import Position, Stored
from .columns import columns_of_family, event_family, frame, payload_of
from .errors import ArchiveUnwritable, SegmentForeign
from .manifest import NAME, SegmentFile, SegmentManifest, read_manifest, segment_folders
from .merkle import root
from .read import ROW_GROUP, segment_file_digest
from .segments import archived_upto, check_owner, keep, lock_archive
from .verify import verify_segment

SIZE = 100_000
MOST = 1_000_000

Progress = Callable[[], object]
"""Called once for each event."""


@dataclass(frozen=True, slots=True)
class Archived:
    """The positions `first` to `last` that one archiver run added, as `events` events in `segments` segments."""

    first: int
    last: int
    events: int
    segments: int


def archive(owner: Engine, folder: Path, upto: Position, *, size: int = SIZE, progress: Progress = int) -> Archived:
    """Archive all positions up to `upto` in segments of `size` events. The events table keeps its rows.

    `owner` connects as the schema's owner, `folder` holds all projects. A segment is written under a temporary name,
    flushed, renamed and then registered in the table, so after a crash all segments are complete and the next run
    continues after them. Concurrent archivers take turns. Raises NotTheOwner, BrokenChain, ArchiveUnwritable,
    SegmentForeign, SegmentDamaged.
    """
    check_owner(owner)
    done: list[SegmentManifest] = []
    while True:
        with owner.begin() as connection, _clean_up_on_failure(folder):
            lock_archive(connection)
            made = _next(owner, connection, folder / project_of(owner), upto, size, progress)
            if made is None:
                break
            keep(connection, made)
            done.append(made)
    if not done:
        return Archived(0, 0, 0, 0)
    return Archived(done[0].first, done[-1].last, sum(made.events for made in done), len(done))


@contextmanager
def _clean_up_on_failure(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ArchiveUnwritable(folder=folder, actual=str(error).splitlines()[0]) from error


def _next(
    owner: Engine, connection: Connection, folder: Path, upto: Position, size: int, progress: Progress
) -> SegmentManifest | None:
    """Write the next segment, or adopt one that was already written; None if all positions are archived."""
    archived, chain = archived_upto(connection)
    if archived >= upto:
        return None
    first = Position(archived + 1)
    for left in segment_folders(folder):
        if left.name.startswith(f"{first}-"):
            return _adopt_segment(connection, left, chain, progress)
    last = Position(min(upto, archived + size))
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".*.partial"):
        shutil.rmtree(leftover)
    partial = folder / f".{first}-{last}.partial"
    try:
        partial.mkdir()
        manifest = _write_segment(owner, partial, first, last, chain, progress)
        partial.rename(folder / manifest.folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # it exists only if the rename did not happen
    flush_to_disk(folder)
    return manifest


def _adopt_segment(connection: Connection, left: Path, previous: bytes, progress: Progress) -> SegmentManifest:
    """A complete segment that is not in the table, because its archiver was killed or the database was restored."""
    manifest = read_manifest(left)
    if manifest.previous != previous.hex():
        raise SegmentForeign(folder=left, what="the chain before it", actual=manifest.previous, expected=previous.hex())
    verify_segment(left.parent, manifest, progress)
    chain = connection.execute(
        text("SELECT chain FROM events WHERE position = :position"), {"position": manifest.last}
    ).scalar()
    expected = "no such position" if chain is None else bytes(chain).hex()
    if manifest.chain != expected:
        raise SegmentForeign(folder=left, what="the chain at its end", actual=manifest.chain, expected=expected)
    return manifest


def _write_segment(
    owner: Engine, partial: Path, first: Position, last: Position, previous: bytes, progress: Progress
) -> SegmentManifest:
    """Write the files and the manifest of a segment into a folder, and flush them to disk."""
    chains = bytearray()
    ends: list[Stored] = []
    parts: defaultdict[str, list[FamilyPart]] = defaultdict(list)
    live = PostgresStore(owner).read_stored(after=Position(first - 1), upto=last)
    sound = verify_chain(live, after=Position(first - 1), previous=previous)
    for number, batch in enumerate(_batches(sound)):
        for part in _parts(partial, number, batch):
            parts[part.family].append(part)
        for row in batch:
            chains += row.chain
            progress()
        ends = [ends[0] if ends else batch[0], batch[-1]]
    manifest = SegmentManifest(
        project=project_of(owner),
        first=first,
        last=last,
        events=len(chains) // 32,
        first_at=ends[0].at,
        last_at=ends[1].at,
        previous=previous.hex(),
        chain=ends[1].chain.hex(),
        root=root(bytes(chains[at : at + 32]) for at in range(0, len(chains), 32)).hex(),
        files=tuple(_join_parts(partial, family, parts[family]) for family in sorted(parts)),
    )
    with (partial / NAME).open("w", encoding="utf-8") as out:
        out.write(manifest.text())
        out.flush()
        os.fsync(out.fileno())
    flush_to_disk(partial)
    return manifest


def _batches(rows: Iterator[Stored]) -> Iterator[list[Stored]]:
    while batch := list(islice(rows, ROW_GROUP)):
        yield batch


@dataclass(frozen=True, slots=True)
class FamilyPart:
    """A temporary file with rows of one family."""

    family: str
    path: Path
    rows: int
    first: int
    last: int
    types: dict[str, int]
    oldest: dict[str, int]


def _parts(partial: Path, number: int, batch: Sequence[Stored]) -> Iterator[FamilyPart]:
    """Write a batch to temporary files, one for each family, so that the batch, not the segment, bounds memory."""
    by_family: defaultdict[str, list[Stored]] = defaultdict(list)
    for row in batch:
        by_family[event_family(row.type)].append(row)
    for family, rows in by_family.items():
        payloads = [payload_of(row) for row in rows]
        path = partial / f"{family}.{number}.part"
        frame(family, rows, payloads).write_parquet(path, compression="uncompressed", statistics=False)
        versions: defaultdict[str, list[int]] = defaultdict(list)
        for row in rows:
            versions[row.type].append(row.schema_version)
        yield FamilyPart(
            family,
            path,
            len(rows),
            rows[0].position,
            rows[-1].position,
            {kind: len(found) for kind, found in versions.items()},
            {kind: min(found) for kind, found in versions.items()},
        )


def _join_parts(partial: Path, family: str, parts: Sequence[FamilyPart]) -> SegmentFile:
    """Join the parts of a family into its file, flush it, and remove the parts."""
    path = partial / f"{family}.parquet"
    pl.scan_parquet([part.path for part in parts], glob=False).sink_parquet(
        path, compression="zstd", statistics=True, row_group_size=ROW_GROUP, maintain_order=True, sync_on_close="all"
    )
    for part in parts:
        part.path.unlink()
    kinds = sorted({kind for part in parts for kind in part.types})
    return SegmentFile(
        name=path.name,
        family=family,
        rows=sum(part.rows for part in parts),
        bytes=path.stat().st_size,
        sha256=segment_file_digest(path),
        first=parts[0].first,
        last=parts[-1].last,
        types={kind: sum(part.types.get(kind, 0) for part in parts) for kind in kinds},
        oldest={kind: min(part.oldest[kind] for part in parts if kind in part.oldest) for kind in kinds},
        columns={column.name: column.kind for column in columns_of_family(family)},
    )
