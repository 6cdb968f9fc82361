"""A static embedding model made here: a few words in two dimensions, like ones side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

MEANINGS = {
    "[UNK]": (9.0, 9.0),
    "engine": (1.0, 0.1),
    "motor": (0.9, 0.2),
    "machinery": (1.0, 0.05),
    "log": (0.05, 0.05),
    "phone": (0.0, 1.0),
    "number": (0.1, 0.9),
}


def make_model(folder: Path, meanings: Mapping[str, tuple[float, ...]] | None = None) -> Path:
    """A folder as model2vec writes it."""
    given = MEANINGS if meanings is None else meanings
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(given)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"embeddings": np.array(list(given.values()), dtype=np.float32)}, folder / "model.safetensors")
    return folder
