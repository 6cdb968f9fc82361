"""The base model: a folder that is known by its digest. Nothing is ever downloaded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from .errors import BaseDiffers, BaseMissing, IdOutsideVocabulary, OtherTemplate, OtherTokenizer, RowTooLong
from .rows import PARTS, Rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

TOKENIZER = "tokenizer.json"
TEMPLATE = "chat_template.jinja"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Base:
    """A base model on disk. `digest` is over its files; `tokenizer` and `chat_template` are digests of those two files.

    `vocabulary` is the number of token ids it takes, `longest` the number of tokens in one row.
    """

    path: Path
    digest: str
    tokenizer: str
    chat_template: str
    architecture: str
    vocabulary: int
    longest: int


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    content = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            content.update(piece)
    return content.hexdigest()


def folder_digest(path: Path) -> str:
    """SHA-256 over the names and contents of a folder's visible files, in order of their names."""
    content = hashlib.sha256()
    for file in sorted(path.iterdir(), key=lambda file: file.name.encode()):
        if file.is_file() and not file.name.startswith("."):
            content.update(f"{file.name}\n{file_digest(file)}\n".encode())
    return content.hexdigest()


def read_base(path: Path, expected: str | None = None) -> Base:
    """Look at a base model without loading it. Raises BaseMissing, BaseDiffers."""
    for name in ("config.json", TOKENIZER, TEMPLATE):
        if not (path / name).is_file():
            raise BaseMissing(path=path, actual=f"there is no {name}")
    _check_weights(path)
    try:
        config = json.loads((path / "config.json").read_bytes())
        facts = (str(config["model_type"]), int(config["vocab_size"]), int(config["max_position_embeddings"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BaseMissing(path=path, actual=f"its config.json is broken at {error}") from error
    digest = folder_digest(path)
    if expected is not None and digest != expected:
        raise BaseDiffers(path=path, actual=digest, expected=expected)
    return Base(path, digest, file_digest(path / TOKENIZER), file_digest(path / TEMPLATE), *facts)


def _check_weights(path: Path) -> None:
    """Each file of weights is as long as its header says: one that was cut off is found before it is loaded."""
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise BaseMissing(path=path, actual="there are no safetensors")
    for file in files:
        actual = file.stat().st_size
        try:
            expected = _length(file)
        except (ValueError, LookupError, TypeError) as error:
            raise BaseMissing(path=path, actual=f"the header of {file.name} is broken or cut off") from error
        if actual != expected:
            raise BaseMissing(path=path, actual=f"{file.name} has {actual} bytes, and its header says {expected}")


def _length(file: Path) -> int:
    """The bytes that a safetensors file has to have: the header's length in 8 bytes, the header, and its tensors."""
    with file.open("rb") as content:
        size = int.from_bytes(content.read(8), "little")
        header = json.loads(content.read(min(size, file.stat().st_size)))
    ends = [int(header[name]["data_offsets"][1]) for name in header if name != "__metadata__"]
    return 8 + size + max(ends, default=0)


def check_rows(rows: Rows, base: Base) -> None:
    """The rows are of this base. Raises OtherTokenizer, OtherTemplate, IdOutsideVocabulary, RowTooLong."""
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


def _check_ids(rows: Rows, column: str, vocabulary: int) -> None:
    ids = rows.frame[column]
    lowest, highest = ids.list.min().fill_null(0), ids.list.max().fill_null(0)
    outside = (lowest < 0) | (highest >= vocabulary)
    if outside.any():
        row = outside.arg_true()[0]
        actual = lowest[row] if lowest[row] < 0 else highest[row]
        raise IdOutsideVocabulary(path=rows.path, row=row, actual=actual, column=column, expected=vocabulary - 1)


def load_tokenizer(base: Base) -> PreTrainedTokenizerFast:
    """The tokenizer of a base model."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base.path, local_files_only=True)


def load_model(base: Base, dtype: Any) -> PreTrainedModel:
    """The weights of a base model in a torch dtype, without dropout, on the CPU. Raises BaseMissing."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(base.path, dtype=dtype, local_files_only=True)
    except (OSError, ValueError, SafetensorError) as error:
        raise BaseMissing(path=base.path, actual=str(error).splitlines()[0]) from error
    return model.eval()
