"""The manifest of a segment: `segment.json` in its folder, with a copy in the table `segments`."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from ..chain import EXACT
from ..events.event import Count, Digest, FrozenModel
from ..store import Position
from .errors import SegmentDamaged

NAME = "segment.json"
Place = Annotated[int, Field(ge=1, le=EXACT)]
Kind = Literal["text", "integer", "boolean", "json"]
"""The kind of a typed column; `json` is canonical JSON text."""


class SegmentFile(FrozenModel):
    """One Parquet file: the events of one family, in order of position."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*\.parquet$")]
    family: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    rows: Place
    bytes: Place
    sha256: Digest
    first: Place
    last: Place
    types: dict[str, Place]
    oldest: dict[str, Count]
    columns: dict[str, Kind]


class SegmentManifest(FrozenModel):
    """A segment: positions `first` to `last`, the chain values before it and at its end, the Merkle root over its own.

    In each file, `types` counts events by type, `oldest` is each type's oldest schema version, and `columns` maps typed
    columns to their kinds.
    """

    format: Literal["flywheel-segment"] = "flywheel-segment"
    format_version: Literal[1] = 1
    project: str
    first: Place
    last: Place
    events: Place
    first_at: datetime
    last_at: datetime
    previous: Digest
    chain: Digest
    root: Digest
    files: tuple[SegmentFile, ...]

    @property
    def folder(self) -> str:
        """The name of the segment's folder."""
        return f"{self.first}-{self.last}"

    def text(self) -> str:
        """The content of `segment.json`."""
        return json.dumps(self.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"

    def files_holding(
        self, after: Position, upto: Position, types: Collection[str] | None = None
    ) -> tuple[SegmentFile, ...]:
        """The files that may hold events of these positions and types."""
        return tuple(
            file
            for file in self.files
            if file.last > after and file.first <= upto and (types is None or not file.types.keys().isdisjoint(types))
        )


def parse_manifest(text: str, where: Path | str) -> SegmentManifest:
    """A manifest from its JSON text. Raises SegmentDamaged."""
    try:
        return SegmentManifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "its JSON"
        raise SegmentDamaged(
            segment=where, what=f"{NAME} ({place})", actual=repr(first["input"])[:80], expected=first["msg"]
        ) from error


def read_manifest(folder: Path) -> SegmentManifest:
    """The manifest in a segment's folder. Raises SegmentDamaged."""
    try:
        text = (folder / NAME).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        actual = error.strerror if isinstance(error, OSError) else str(error)
        raise SegmentDamaged(segment=folder, what=NAME, actual=actual, expected="a file in UTF-8") from error
    return parse_manifest(text, folder)


def segment_folders(folder: Path) -> list[Path]:
    """The folders of complete segments in a project's folder, in order of position."""
    if not folder.is_dir():
        return []
    found = []
    for entry in folder.iterdir():
        first, dash, last = entry.name.partition("-")
        if dash and first.isdecimal() and last.isdecimal() and entry.is_dir():
            found.append((int(first), int(last), entry))
    return [entry for _, _, entry in sorted(found)]
