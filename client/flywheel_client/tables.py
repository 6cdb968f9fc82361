"""Rows of datasets as tables of Arrow, polars and Hugging Face. Each library is imported when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from .connection import Connection

if TYPE_CHECKING:
    import polars as pl

ARROW = "application/vnd.apache.arrow.stream"

Progress = Callable[[int, int], object]
"""Called with the bytes received so far and their number in all."""


@dataclass(frozen=True)
class Rows:
    """The rows of a dataset or a slice. Every method fetches them again; the server checks them against the digest."""

    connection: Connection
    path: str
    progress: Progress | bool = False

    def read_bytes(self) -> BytesIO:
        """The rows as an Arrow IPC stream. Raises ApiError, Unreachable."""
        tell = _print_progress if self.progress is True else self.progress or None
        body = BytesIO()
        with self.connection.stream(self.path, {"Accept": ARROW}) as answer:
            total = int(answer.headers.get("Content-Length", 0))
            for part in answer.iter_bytes():
                body.write(part)
                if tell is not None:
                    tell(body.tell(), total)
        body.seek(0)
        return body

    def arrow(self) -> Any:
        """A `pyarrow.Table`. Needs pyarrow."""
        import pyarrow as pa  # type: ignore[import-untyped]

        return pa.ipc.open_stream(self.read_bytes()).read_all()

    def polars(self) -> pl.DataFrame:
        """A `polars.DataFrame`. Needs polars."""
        import polars as pl

        return pl.read_ipc_stream(self.read_bytes())

    def huggingface(self) -> Any:
        """A `datasets.Dataset` over the same memory. Needs datasets."""
        from datasets import Dataset

        return Dataset(self.arrow())


def _print_progress(done: int, total: int) -> None:
    share = f"{100 * done // total} %" if total else f"{done} bytes"
    end = "\n" if done == total else ""
    print(f"\r{share} of {total / 1e6:.1f} MB", end=end, file=sys.stderr, flush=True)
