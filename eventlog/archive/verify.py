"""Verify the files of a segment against its manifest in the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from ..chain import verify_chain
from ..errors import BrokenChain
from ..store import Position, Stored
from .errors import ArchiveMissing, SegmentDamaged
from .manifest import NAME, SegmentManifest, read_manifest
from .merkle import root
from .read import rows, segment_file_digest

_LONG = 200

Progress = Callable[[], object]
"""Called once for each event."""


def verify_segment(folder: Path, manifest: SegmentManifest, progress: Progress = int) -> None:
    """Verify a segment in a project's folder: its manifest, files, events, chain and Merkle root.

    Raises ArchiveMissing, SegmentDamaged.
    """
    place = folder / manifest.folder
    if not place.is_dir():
        facts = {"first": manifest.first, "last": manifest.last}
        raise ArchiveMissing(**facts, folder=place, actual="and there is no such folder")
    for name, said in read_manifest(place):
        _same(place, f"{name} in {NAME}", said, getattr(manifest, name))
    for file in manifest.files:
        _same(place, f"the SHA-256 of {file.name}", segment_file_digest(place / file.name), file.sha256)
    types: Counter[str] = Counter()
    leaves = _leaves(place, manifest, rows(folder, manifest), types, progress)
    _same(place, "its root", root(leaves).hex(), manifest.root)
    _same(place, "the number of its events", types.total(), manifest.events)
    counted = {kind: amount for file in manifest.files for kind, amount in file.types.items()}
    _same(place, "its events by type", dict(types), counted)


def _leaves(
    place: Path, manifest: SegmentManifest, found: Iterator[Stored], types: Counter[str], progress: Progress
) -> Iterator[bytes]:
    """Verify the rows, and yield their chain values."""
    chain = ""
    try:
        for row in verify_chain(found, after=Position(manifest.first - 1), previous=bytes.fromhex(manifest.previous)):
            types[row.type] += 1
            chain = row.chain.hex()
            progress()
            yield row.chain
    except BrokenChain as error:
        facts = error.facts
        what = f"{facts['what']} at position {facts['position']}"
        raise SegmentDamaged(segment=place, what=what, actual=facts["actual"], expected=facts["expected"]) from error
    _same(place, "the chain at its end", chain, manifest.chain)


def _same(place: Path, what: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise SegmentDamaged(segment=place, what=what, actual=_short(actual), expected=_short(expected))


def _short(value: object) -> str:
    said = " ".join(str(value).split())
    return said if len(said) <= _LONG else f"{said[:_LONG]}…"
