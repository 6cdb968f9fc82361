"""Embedding models on disk: the digest of what is read, integers whatever reads it, and what is refused by name."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from agents.learning.embeddings import by_words, pinned_embeddings, read_embeddings
from agents.learning.errors import EmbeddingsMissing, EmbeddingsOther, EmbeddingsUnfit
from agents.learning.memory import build_memory_artifact, forget_everything
from agents.models.errors import LibrariesMissing
from eventlog.chain import canonical
from eventlog.events import Memory
from projections.engine.views import ReplayedViews
from tests.embedded import MEANINGS, make_model
from tests.unit.test_memory_kinds import a_history

ROWS = np.array(list(MEANINGS.values()), dtype=np.float32)


def test_the_digest_is_over_both_files_and_their_names(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "m")
    hashed = (
        hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("model.safetensors", "tokenizer.json")
    )
    expected = "model.safetensors\n{}\ntokenizer.json\n{}\n".format(*hashed)
    assert read_embeddings(folder).digest == hashlib.sha256(expected.encode()).hexdigest()
    for name in ("model.safetensors", "tokenizer.json"):
        other = make_model(tmp_path / f"without-{name}", {**MEANINGS, "boat": (1.0, 1.0)})
        (other / name).write_bytes((folder / name).read_bytes())
    assert make_model(tmp_path / "again") != folder
    assert read_embeddings(tmp_path / "again").digest == read_embeddings(folder).digest


def test_numbers_keep_their_proportion_to_the_largest(tmp_path: Path) -> None:
    found = read_embeddings(make_model(tmp_path, {"[UNK]": (0.0, 0.0), "engine": (2.0, -4.0), "log": (1.0, 0.5)}))
    assert (found.dimension, list(found.rows)) == (2, [0, 0, 16_384, -32_767, 8_192, 4_096])
    assert found.vector("engine") == (16_384, -32_767)
    assert found.vector("Engine engine LOG") == (40_960, -61_438)


def test_unknown_tokens_count_nothing(tmp_path: Path) -> None:
    found = read_embeddings(make_model(tmp_path))
    assert found.vector("engine harbour") == found.vector("engine") != (0, 0)
    assert found.vector("harbour") == (0, 0)
    assert found.likeness("engine", "motor") > 950_000
    assert 0 < found.likeness("engine", "phone") < 300_000


@pytest.mark.parametrize("missing", ["tokenizer.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_refused_by_its_name(tmp_path: Path, missing: str) -> None:
    (make_model(tmp_path) / missing).unlink()
    with pytest.raises(EmbeddingsUnfit, match=f"there is no {missing}"):
        read_embeddings(tmp_path)


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"embeddings": ROWS, "weights": ROWS},
        {"embeddings": ROWS[:-1]},
        {"embeddings": ROWS[:, 0]},
        {"embeddings": ROWS.astype(np.int32)},
        {"embeddings": ROWS * 0},
        {"embeddings": np.full_like(ROWS, np.nan)},
    ],
    ids=["none", "two", "a row short", "no matrix", "integers", "zeros", "no numbers"],
)
def test_another_matrix_is_refused(tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    make_model(tmp_path)
    save_file({name: np.ascontiguousarray(each) for name, each in tensors.items()}, tmp_path / "model.safetensors")
    with pytest.raises(EmbeddingsUnfit, match="a row for each of the 7 tokens"):
        read_embeddings(tmp_path)


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_broken_file_is_refused(tmp_path: Path, name: str) -> None:
    (make_model(tmp_path) / name).write_bytes(b"{}")
    with pytest.raises(EmbeddingsUnfit, match=f"{name} is broken"):
        read_embeddings(tmp_path)


def test_without_its_libraries_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(LibrariesMissing, match="the extra `train`"):
        read_embeddings(tmp_path)


def test_a_memory_needs_the_model_that_it_was_pinned_with_and_else_none(tmp_path: Path) -> None:
    model = read_embeddings(make_model(tmp_path / "one"))
    other = read_embeddings(make_model(tmp_path / "two", {**MEANINGS, "boat": (1.0, 1.0)}))
    plain = forget_everything("base")[0].memory
    matched = plain.model_copy(update={"embeddings": model.digest})
    assert pinned_embeddings(plain, model) is None
    by_words(plain)
    assert pinned_embeddings(matched, model) is model
    with pytest.raises(EmbeddingsOther, match=model.digest):
        pinned_embeddings(matched, other)
    with pytest.raises(EmbeddingsMissing, match=model.digest):
        by_words(matched)


def test_the_digest_rides_on_the_artifact_and_changes_nothing_where_there_is_none(tmp_path: Path) -> None:
    """An event of before has no such field, and what is written today without a model has none either."""
    store, _, marks = a_history()
    seen, model = ReplayedViews(store, marks["exemplar"]), read_embeddings(make_model(tmp_path))
    plain, matched = build_memory_artifact(seen, "base"), build_memory_artifact(seen, "base", embeddings=model)
    assert matched[0].memory.embeddings == model.digest
    assert matched[1] == plain[1]
    assert matched[0].memory.model_copy(update={"embeddings": None}) == plain[0].memory
    written = plain[0].memory.model_dump(mode="json")
    assert written.keys() == {"upto", "folds", "without", "digest"}
    assert Memory.model_validate_json(canonical(written)) == plain[0].memory
    kept = matched[0].memory
    assert Memory.model_validate_json(canonical(kept.model_dump(mode="json"))) == kept
