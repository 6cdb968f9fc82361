"""Read segments: rows as they were stored, one page of positions at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
from sqlalchemy import Engine, text

from ..database import project_of, read_connection
from ..store import Position, Stored
from .columns import ENVELOPE
from .errors import ArchiveMissing, SegmentDamaged
from .manifest import SegmentFile, SegmentManifest
from .segments import POSITIONS_OF_STREAM, first_after, segments

ROW_GROUP = 10_000
_PAGE = 5_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""Exceptions that Polars raises for a file that contradicts its manifest. PanicException is not an Exception."""

_POSITIONS = text(POSITIONS_OF_STREAM)


def read_archived(
    engine: Engine,
    archive: Path | None,
    after: Position,
    upto: Position,
    *,
    stream: str | None = None,
    types: Collection[str] | None = None,
) -> Iterator[Stored]:
    """Archived rows at positions in (after, upto], in order, optionally of one stream or of some types; page by page.

    `archive` is the folder of all projects. Raises ArchiveMissing, SegmentDamaged.
    """
    folder = None if archive is None else archive / project_of(engine)
    if stream is not None:
        yield from _of_stream(engine, folder, stream, after, upto)
        return
    for manifest in segments(engine, after, upto):
        _refuse_gap(folder, after, Position(manifest.first - 1))
        yield from rows(folder, manifest, after, upto, types)
        after = Position(manifest.last)
    _refuse_gap(folder, after, upto)


def _of_stream(engine: Engine, folder: Path | None, stream: str, after: Position, upto: Position) -> Iterator[Stored]:
    """The archived rows of a stream. Opens only the segments that hold them, according to `stream_versions`."""
    wanted: Sequence[Position] = ()
    while wanted := wanted or _positions(engine, stream, after, upto):
        after = wanted[0]
        manifest = next(segments(engine, Position(after - 1), after), None)
        if manifest is None:
            raise ArchiveMissing(first=after, last=after, folder=folder, actual="and the table segments names none")
        here = [position for position in wanted if position <= manifest.last]
        yield from _page(folder, manifest, manifest.files, here[0] - 1, here[-1], here)
        wanted, after = wanted[len(here) :], here[-1]


def _refuse_gap(folder: Path | None, after: Position, before: Position) -> None:
    if before > after:
        raise ArchiveMissing(first=after + 1, last=before, folder=folder, actual="and the table segments names none")


def _positions(engine: Engine, stream: str, after: Position, upto: Position) -> list[Position]:
    values = {"stream": stream, "after": after, "upto": upto, "page": _PAGE}
    with read_connection(engine) as connection:
        return [Position(found) for found in connection.execute(_POSITIONS, values).scalars()]


def rows(
    folder: Path | None,
    manifest: SegmentManifest,
    after: int = 0,
    upto: int | None = None,
    types: Collection[str] | None = None,
) -> Iterator[Stored]:
    """The rows of a segment at positions in (after, upto], in order, optionally of some types.

    Raises ArchiveMissing, SegmentDamaged.
    """
    start = max(after, manifest.first - 1)
    finish = manifest.last if upto is None else min(upto, manifest.last)
    files = manifest.files_holding(Position(start), Position(finish), types)
    span = manifest.last - manifest.first + 1
    step = max(_PAGE, _PAGE * span // max(1, sum(file.rows for file in files)))
    is_whole, count = (start, finish) == (manifest.first - 1, manifest.last), 0
    while start < finish and files:
        end = min(start + step, finish)
        for row in _page(folder, manifest, files, start, end, None if types is None else _of(types)):
            count += 1
            yield row
        start = end
    if is_whole and types is not None:
        said = sum(amount for file in files for kind, amount in file.types.items() if kind in types)
        _refuse_count(manifest, f"the number of its events of {', '.join(sorted(types))}", count, said)


Chosen = Callable[[], pl.Expr] | Sequence[int] | None


def _of(types: Collection[str]) -> Callable[[], pl.Expr]:
    return lambda: pl.col("type").is_in(list(types))


def _page(
    folder: Path | None,
    manifest: SegmentManifest,
    files: Sequence[SegmentFile],
    after: int,
    upto: int,
    chosen: Chosen,
) -> Iterator[Stored]:
    """The rows at positions in (after, upto]: all of them, those that meet a condition, or given positions."""
    wanted = pl.col("position").is_between(after + 1, upto)
    expected: int | None = upto - after
    if callable(chosen):
        wanted, expected = wanted & chosen(), None
    elif chosen is not None:
        wanted, expected = wanted & pl.col("position").is_in(list(chosen)), len(chosen)
    columns = [pl.col(name).cast(pl.Int64) if name == "at" else pl.col(name) for name in ENVELOPE]
    parts = [
        scan_segment_file(folder, manifest, file).filter(wanted).select(columns)
        for file in files
        if file.last > after and file.first <= upto
    ]
    found = collect_frame(manifest, pl.concat(parts).sort("position")) if parts else pl.DataFrame()
    if parts and not found["position"].is_unique().all():
        what = f"the order of its positions from {after + 1} to {upto}"
        raise SegmentDamaged(segment=manifest.folder, what=what, actual="one of them twice", expected="each once")
    if expected is not None:
        _refuse_count(manifest, f"the number of events from {after + 1} to {upto}", len(found), expected)
    for row in found.iter_rows():
        yield _stored_row(row)


def _refuse_count(manifest: SegmentManifest, what: str, actual: int, expected: int) -> None:
    if actual != expected:
        raise SegmentDamaged(segment=manifest.folder, what=what, actual=actual, expected=expected)


def _stored_row(row: tuple[Any, ...]) -> Stored:
    position, stream, version, at, actor, cause, kind, schema_version, payload, digest, chain = row
    moment = _EPOCH + timedelta(microseconds=at)
    return Stored(
        position, stream, version, moment, actor, cause, kind, schema_version, payload, bytes(digest), bytes(chain)
    )


def scan_segment_file(folder: Path | None, manifest: SegmentManifest, file: SegmentFile) -> pl.LazyFrame:
    """A lazy frame over a file of a segment.

    The file is compared with the manifest's SHA-256 when this process first opens it, and again whenever its size or
    modification time has changed. Raises ArchiveMissing, SegmentDamaged.
    """
    facts = {"first": manifest.first, "last": manifest.last}
    if folder is None:
        raise ArchiveMissing(**facts, folder="the archive", actual="and this reader was given no folder")
    path = folder / manifest.folder / file.name
    try:
        found = path.stat()
    except OSError as error:
        raise ArchiveMissing(
            **facts, folder=path.parent, actual=f"where {file.name} cannot be read ({error.strerror})"
        ) from error
    if found.st_size != file.bytes:
        raise SegmentDamaged(
            segment=path.parent, what=f"{file.name}", actual=f"{found.st_size} bytes", expected=f"{file.bytes} bytes"
        )
    digest = _digest_once(path, found.st_size, found.st_mtime_ns)
    if digest != file.sha256:
        what = f"the SHA-256 of {file.name}"
        raise SegmentDamaged(segment=path.parent, what=what, actual=digest, expected=file.sha256)
    return pl.scan_parquet(path, glob=False)


@lru_cache(maxsize=2**16)
def _digest_once(path: Path, size: int, changed: int) -> str:  # noqa: ARG001 part of the cache key
    return segment_file_digest(path)


def segment_file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes in hexadecimal. Raises SegmentDamaged if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SegmentDamaged(segment=path.parent, what=path.name, actual=error.strerror, expected="a file") from error


def collect_frame(manifest: SegmentManifest, frame: pl.LazyFrame) -> pl.DataFrame:
    """Collect a lazy frame over a segment's files. Raises SegmentDamaged."""
    try:
        return frame.collect()
    except _UNREADABLE as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise SegmentDamaged(
            segment=manifest.folder, what="a file", actual=f"unreadable ({first_line})", expected="Parquet"
        ) from error


def position_at(engine: Engine, archive: Path | None, moment: datetime, below: Position) -> Position:
    """The last archived position below `below` that was recorded at or before a moment, or 0."""
    manifest = first_after(engine, moment, below)
    if manifest is None:
        return Position(below - 1)
    folder = None if archive is None else archive / project_of(engine)
    at = pl.col("at") <= pl.lit(moment.astimezone(UTC), dtype=pl.Datetime("us", "UTC"))
    parts = [
        scan_segment_file(folder, manifest, file).filter(at).select(pl.col("position").max()) for file in manifest.files
    ]
    found = collect_frame(manifest, pl.concat(parts).select(pl.col("position").max())).item()
    return Position(manifest.first - 1 if found is None else found)
