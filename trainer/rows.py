"""Training rows: token ids, never text.

There are three kinds of dataset, each a Parquet file with the columns of `projections.datasets.row_columns`. Others
(TRL's `prompt`, `completion`, ...) are ignored, except `top_p` of GRPO rows, which must be 1 if present. Each list in
a row has one entry per token of its part.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from projections.datasets.row_columns import TRAINED, Kind

from .errors import BadRow, DatasetEmpty, RowsUnreadable, SamplingCut, TemperaturesMixed, WrongColumn

PARTS: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "sft": {"completion_ids": ("mask",)},
    "dpo": {"chosen_ids": ("chosen_mask",), "rejected_ids": ("rejected_mask",)},
    "grpo": {"completion_ids": ("logprobs", "mask")},
}
"""Trained parts of a row: the column of ids, and the columns that must have its length. The last one is the mask."""


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """A checked dataset: `frame` holds exactly the columns of its kind, in the order of the file.

    `digest` is over the content of these columns, not over the bytes of the file.
    """

    kind: Kind
    path: str
    frame: pl.DataFrame
    digest: str


def read_rows(path: Path, kind: Kind) -> TrainingRows:
    """Read and check a dataset.

    Raises RowsUnreadable, WrongColumn, DatasetEmpty, BadRow, TemperaturesMixed, SamplingCut.
    """
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RowsUnreadable(path=path, actual=str(error).splitlines()[0]) from error
    taken = pl.DataFrame([_column(path, kind, frame, name, wanted) for name, wanted in TRAINED[kind].items()])
    if taken.is_empty():
        raise DatasetEmpty(path=path)
    for part, beside in PARTS[kind].items():
        _check_part(path, taken, part, beside)
    if kind == "grpo":
        _check_grpo(path, taken)
        _refuse_cut(path, frame)
    return TrainingRows(kind, str(path), taken, rows_digest(taken))


def rows_digest(frame: pl.DataFrame) -> str:
    """SHA-256 over the columns in order: name, lengths of lists, values as little-endian 64-bit words or UTF-8."""
    content = hashlib.sha256()
    for column in frame.get_columns():
        content.update(f"{column.name}\n{len(column)}\n".encode())
        if isinstance(column.dtype, pl.List):
            content.update(column.list.len().cast(pl.Int64).to_numpy().tobytes())
            content.update(_words(column.explode(empty_as_null=False)))
        elif column.dtype == pl.String:
            for text in column:
                content.update(struct.pack("<q", len(text.encode())) + text.encode())
        else:
            content.update(_words(column))
    return content.hexdigest()


def _words(values: pl.Series) -> bytes:
    wide = pl.Float64 if values.dtype == pl.Float64 else pl.Int64
    return values.cast(wide).to_numpy().astype("<f8" if wide == pl.Float64 else "<i8").tobytes()


def _column(path: Path, kind: Kind, frame: pl.DataFrame, name: str, expected: pl.DataType) -> pl.Series:
    """A column in its expected type: narrower numbers are widened, nothing else is converted."""
    if name not in frame.columns:
        raise WrongColumn(path=path, kind=kind, column=name, actual="missing", expected=expected)
    column = frame[name]
    inner = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
    wanted = expected.inner if isinstance(expected, pl.List) else expected
    alike = inner.is_integer() if wanted.is_integer() else inner.is_float() if wanted.is_float() else inner == wanted
    if isinstance(column.dtype, pl.List) != isinstance(expected, pl.List) or not (alike or column.is_empty()):
        raise WrongColumn(path=path, kind=kind, column=name, actual=column.dtype, expected=expected)
    try:
        column = column.cast(expected)
    except pl.exceptions.PolarsError as error:
        raise WrongColumn(path=path, kind=kind, column=name, actual="out of range", expected=expected) from error
    missing = column.is_null()
    if isinstance(expected, pl.List):
        missing = missing | column.list.eval(pl.element().is_null()).list.any().fill_null(value=False)
    _refuse(path, missing, f"{name} is not known", "a value; None is not taken as 0")
    return column


def _check_part(path: Path, frame: pl.DataFrame, part: str, beside: tuple[str, ...]) -> None:
    """Check that the columns of a part have equal length, and that the model generated at least one of its tokens."""
    length = frame[part].list.len()
    for name in beside:
        _refuse(path, frame[name].list.len() != length, f"{name} and {part} differ in length", "one entry per token")
    mask = frame[beside[-1]]
    outside = mask.list.eval(~pl.element().is_in([0, 1])).list.any().fill_null(value=False)
    _refuse(path, outside, f"{beside[-1]} holds a number other than 0 and 1", "1 for a token of the model")
    _refuse(path, mask.list.sum() < 1, f"{beside[-1]} marks no token", "at least one token of the model")
    _refuse(path, frame["prompt_ids"].list.len() < 1, "its prompt is empty", "at least one token before the completion")


def _check_grpo(path: Path, frame: pl.DataFrame) -> None:
    infinite = ~frame["logprobs"].list.eval(pl.element().is_finite()).list.all()
    _refuse(path, infinite, "a log-probability is not finite", "those of the policy that sampled")
    _refuse(path, ~frame["advantage"].is_finite(), "its advantage is not finite", "a number")
    _refuse(path, ~(frame["temperature"] > 0), "its temperature is not above 0", "the sampling temperature")
    temperatures = frame["temperature"].unique().sort().to_list()
    if len(temperatures) > 1:
        raise TemperaturesMixed(path=path, actual=len(temperatures))


def _refuse_cut(path: Path, frame: pl.DataFrame) -> None:
    """Refuse rows with top_p below 1: training normalises over all tokens, so such logprobs would shift every ratio."""
    if "top_p" not in frame.columns:
        return
    top_p = _column(path, "grpo", frame, "top_p", pl.Float64())
    cut = top_p.filter(top_p != 1)
    if len(cut):
        raise SamplingCut(path=path, actual=cut[0])


def _refuse(path: Path, broken: pl.Series, actual: str, expected: str) -> None:
    """Raise BadRow for the first row marked as broken."""
    if broken.any():
        raise BadRow(path=path, row=broken.arg_true()[0], actual=actual, expected=expected)
