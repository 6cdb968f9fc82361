"""Rows of a dataset as a file that appears whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from eventlog.transfer import refuse_unwritable

from ..datasets import freeze
from ..datasets.freeze import DatasetSummary
from ..house import House
from ..queries.datasets import Frozen


def write_rows(house: House, frozen: Frozen, file: Path) -> DatasetSummary:
    """Make the rows of a frozen dataset again and write them, as Parquet, NDJSON or an Arrow stream."""
    views, query = house.views_at(str(frozen.upto)), frozen.parse_query()
    if file.suffix != ".arrow":
        return freeze.write_dataset(house.store, house.blobs, views, query, file)
    built = freeze.build_dataset(house.store, house.blobs, views, query)
    built.rows.write_ipc_stream(file)
    return built


def refuse_file(file: Path, endings: tuple[str, ...]) -> None:
    """Raise BadParameter unless a file has one of these endings and can be written."""
    if file.suffix not in endings:
        raise typer.BadParameter(f"{file.name!r} has the ending {file.suffix!r}; expected {', '.join(endings)}")
    if not file.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {file.parent}; expected one that exists")
    refuse_unwritable(file)


def write_whole(file: Path, writing: Callable[[Path], DatasetSummary]) -> DatasetSummary:
    """Write a file so that it appears whole or not at all."""
    unfinished = file.with_name(f".partial-{file.name}")
    try:
        made = writing(unfinished)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return made
