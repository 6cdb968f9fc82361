"""The base model for training: its tokenizer, its weights, and checks of rows against it. Never downloads anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from eventlog.errors import BaseMissing
from eventlog.weights_folder import Base

from .errors import IdOutsideVocabulary, OtherTemplate, OtherTokenizer, RowTooLong
from .rows import PARTS, TrainingRows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def check_rows(rows: TrainingRows, base: Base) -> None:
    """Check that rows fit this base. Raises OtherTokenizer, OtherTemplate, IdOutsideVocabulary, RowTooLong."""
    for column, own, refusal in (
        ("tokenizer", base.tokenizer, OtherTokenizer),
        ("chat_template", base.chat_template, OtherTemplate),
    ):
        others = rows.frame[column].filter(rows.frame[column] != own)
        if len(others):
            raise refusal(path=rows.path, actual=others[0], expected=own)
    for column in ("prompt_ids", *PARTS[rows.kind]):
        _check_ids(rows, column, base.vocabulary)
    for part in PARTS[rows.kind]:
        length = rows.frame["prompt_ids"].list.len().cast(pl.Int64) + rows.frame[part].list.len().cast(pl.Int64)
        if (length > base.longest).any():
            row = (length > base.longest).arg_true()[0]
            raise RowTooLong(path=rows.path, row=row, actual=length[row], expected=base.longest)


def _check_ids(rows: TrainingRows, column: str, vocabulary: int) -> None:
    ids = rows.frame[column]
    lowest, highest = ids.list.min().fill_null(0), ids.list.max().fill_null(0)
    outside = (lowest < 0) | (highest >= vocabulary)
    if outside.any():
        row = outside.arg_true()[0]
        actual = lowest[row] if lowest[row] < 0 else highest[row]
        raise IdOutsideVocabulary(path=rows.path, row=row, actual=actual, column=column, expected=vocabulary - 1)


def load_tokenizer(base: Base) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a base model."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base.path, local_files_only=True)


def load_model(base: Base, dtype: Any) -> PreTrainedModel:
    """Load the weights of a base model in a torch dtype, without dropout, on the CPU. Raises BaseMissing."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(base.path, dtype=dtype, local_files_only=True)
    except (OSError, ValueError, SafetensorError) as error:
        raise BaseMissing(path=base.path, actual=str(error).splitlines()[0]) from error
    return model.eval()
