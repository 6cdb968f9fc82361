"""Files of dataset rows, kept in the home so that rows are built from the log once: by digest, within a bound of bytes.

Rows of runs that have a subject are never kept, so that an erasure leaves none of its bytes here. Where else such
bytes went is not known, so an erasure removes all files, and one that an erasure missed is not read again.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from projections.engine.views import Views
from projections.taint import SUBJECT, TAINT, erasures

from ..house import House

_LOG: Final = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[0-9a-f]{64}\.[A-Za-z0-9.+_-]+")
_RUNS: Final = ("run", "chosen_run", "rejected_run")
_WHOLE: Final = ("arrow", "lz4.arrow")
"""Endings of files from which the rows are read again with their types and their batches."""

_ABANDONED_S: Final = 3600.0
"""The age at which a file that was never finished is removed."""


def dataset_folder(house: House) -> Path:
    """Where files of rows of this project are kept."""
    return house.settings.home / "datasets" / house.settings.project


def kept_file(house: House, name: str) -> BinaryIO | None:
    """The kept file of a name, open and marked as used now; None if there is none that can be read."""
    if not _NAME.fullmatch(name):
        return None
    file = dataset_folder(house) / name
    try:
        opened = file.open("rb")
    except OSError:
        return None
    with suppress(OSError):  # it was removed meanwhile, or belongs to another user
        os.utime(file)
    return opened


def kept_rows(house: House, views: Views, digest: str) -> pl.DataFrame | None:
    """The rows of a digest out of a file that keeps them as a frame has them; None if there is none that can be read.

    Whatever is encoded from them has the same bytes as if they had been built from the log.
    """
    for suffix in _WHOLE:
        kept = kept_file(house, kept_name(views, digest, suffix))
        if kept is None:
            continue
        with kept, suppress(pl.exceptions.PolarsError, OSError):
            return pl.read_ipc_stream(kept)
    return None


def kept_name(views: Views, digest: str, suffix: str) -> str:
    """The name of the file of rows: those written before the latest erasure have another one, wherever they are."""
    latest = max((state.since for state in erasures(views).values()), default=0)
    return f"{digest}.{pl.__version__}.{latest}.{suffix}"


def drop_kept_files(house: House) -> None:
    """Remove every kept file of this project; a part of one that is being written goes too, and is not kept."""
    shutil.rmtree(dataset_folder(house), ignore_errors=True)


def keep_file(house: House, views: Views, name: str, frame: pl.DataFrame, body: bytes | memoryview) -> None:
    """Keep the encoded rows of a frame, unless a run of it has a subject or they are more than may be kept."""
    most = house.settings.dataset_bytes
    if len(body) > most or has_subject(views, frame):
        return
    folder = dataset_folder(house)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_room(folder, most - len(body))
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(folder / name)
    except OSError as error:
        _LOG.warning("rows are not kept in %s: %s", folder, error)


def has_subject(views: Views, frame: pl.DataFrame) -> bool:
    """True if a run of these rows read or wrote a person's data."""
    of_subjects = {run for state in views.find(TAINT, SUBJECT).values() for run in state.runs}
    return bool(of_subjects) and not of_subjects.isdisjoint(_runs_of(frame))


def _runs_of(frame: pl.DataFrame) -> Collection[str]:
    return {run for name in _RUNS if name in frame.columns for run in frame.get_column(name).unique()}


def _make_room(folder: Path, most: int) -> None:
    """Remove the files that were not used for longest until the others have at most so many bytes."""
    held = []
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # another process removed it
            held.append((file.stat().st_mtime, file.stat().st_size, file))
    total = sum(size for _, size, _ in held)
    now = time.time()
    for used, size, file in sorted(held):
        is_abandoned = file.suffix == ".part" and now - used > _ABANDONED_S
        if is_abandoned or (total > most and file.suffix != ".part"):
            file.unlink(missing_ok=True)
            total -= size
