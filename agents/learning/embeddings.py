"""Static embedding models on disk: a tokenizer and one matrix, identified by the digest of both files.

The hashed bytes are the bytes that are parsed. The floats are converted to integers once, on reading.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, Final

from eventlog.events import Memory

from ..models.errors import LibrariesMissing
from .errors import EmbeddingsMissing, EmbeddingsOther, EmbeddingsUnfit
from .similarity import Embeddings

TOKENIZER: Final = "tokenizer.json"
MATRIX: Final = "model.safetensors"
WORDLLAMA: Final = "wordllama"
"""Name of the package (MIT) that holds a matrix of 32,000 tokens and 256 dimensions; a folder of that name wins."""
_NAMED: Final = "l2_supercat"
LARGEST: Final = 32_767
"""Integer that the largest magnitude of a matrix is scaled to; all other numbers are scaled in proportion."""

Embedded = Callable[[Memory], Embeddings | None]
"""Returns the model that matches a memory; None if the memory is matched by words alone."""


def read_embeddings(path: Path) -> Embeddings:
    """Read the model in a folder, or that of the package `wordllama`. Raises EmbeddingsUnfit, LibrariesMissing."""
    own = _packaged_files() if str(path) == WORDLLAMA and not path.is_dir() else {}
    held = {name: _bytes(own.get(name, path / name)) for name in (MATRIX, TOKENIZER)}
    lines = (f"{name}\n{hashlib.sha256(content).hexdigest()}\n" for name, content in held.items())
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    try:
        tokens, amount = _tokens(path, held[TOKENIZER])
        rows, dimension = _rows(path, held[MATRIX], amount)
    except ImportError as problem:
        raise LibrariesMissing(path=path, actual=str(problem)) from problem
    return Embeddings(digest, dimension, rows, tokens)


def pinned_embeddings(memory: Memory, present: Embeddings | None) -> Embeddings | None:
    """Model that matches a memory, or None. Raises EmbeddingsMissing, EmbeddingsOther."""
    if memory.embeddings is None:
        return None
    if present is None:
        raise EmbeddingsMissing(actual="none", expected=memory.embeddings)
    if present.digest != memory.embeddings:
        raise EmbeddingsOther(actual=present.digest, expected=memory.embeddings)
    return present


def by_words(memory: Memory) -> None:
    """Check that a memory is matched by words alone. Raises EmbeddingsMissing if it needs a model."""
    pinned_embeddings(memory, None)


def _packaged_files() -> Mapping[str, Path]:
    """The two files of the package wordllama, which is read without being imported. Raises LibrariesMissing."""
    try:
        held = files(WORDLLAMA) or ()
    except PackageNotFoundError as problem:
        raise LibrariesMissing(path=WORDLLAMA, actual=f"{problem} is not installed") from problem
    suffixes = {MATRIX: ".safetensors", TOKENIZER: ".json"}
    found = {
        name: sorted(str(each.locate()) for each in held if each.suffix == suffix and _NAMED in each.name)
        for name, suffix in suffixes.items()
    }
    return {name: Path(paths[0]) for name, paths in found.items() if paths}


def _bytes(file: Path) -> bytes:
    if not file.is_file():
        raise EmbeddingsUnfit(path=file.parent, actual=f"there is no {file.name}", expected=f"{TOKENIZER} and {MATRIX}")
    return file.read_bytes()


def _tokens(path: Path, content: bytes) -> tuple[Callable[[str], Sequence[int]], int]:
    """Function that splits a text into token ids without unknown ones, and the size of the vocabulary."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(content)
    except ValueError as problem:
        actual = f"its {TOKENIZER} is broken: {problem}"
        raise EmbeddingsUnfit(path=path, actual=actual, expected="a file of the tokenizers library") from problem
    tokenizer.no_truncation()
    tokenizer.no_padding()
    vocabulary = tokenizer.get_vocab()
    model: dict[str, Any] = json.loads(content)["model"]
    unknown = {vocabulary.get(model.get("unk_token", "")), model.get("unk_id")}

    def tokens(text: str) -> Sequence[int]:
        return [each for each in tokenizer.encode(text, add_special_tokens=False).ids if each not in unknown]

    return tokens, 1 + max(vocabulary.values(), default=-1)


def _rows(path: Path, content: bytes, amount: int) -> tuple[array[int], int]:
    """The matrix as integers in row-major order, and the length of a row."""
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load

    expected = f"one matrix of floats with a row for each of the {amount} tokens"
    try:
        held = load(content)
    except (SafetensorError, KeyError, TypeError, ValueError) as problem:
        raise EmbeddingsUnfit(path=path, actual=f"{MATRIX} is broken: {problem}", expected=expected) from problem
    shapes = {name: f"{found.dtype} {list(found.shape)}" for name, found in sorted(held.items())}
    matrix = next(iter(held.values()), None)
    if matrix is None or len(held) != 1 or matrix.dtype.kind != "f" or matrix.ndim != 2 or len(matrix) != amount:  # noqa: PLR2004
        raise EmbeddingsUnfit(path=path, actual=f"{MATRIX} holds {shapes}", expected=expected)
    exact = matrix.astype(np.float64)
    largest = float(np.abs(exact).max(initial=0))
    if not 0 < largest < np.inf:
        raise EmbeddingsUnfit(path=path, actual=f"its largest number is {largest}", expected=expected)
    whole = np.rint(exact / largest * LARGEST).astype(np.int16)
    return array("h", whole.tobytes()), int(matrix.shape[1])
