"""Folders as training writes them are what the backend reads: the digests of both are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.models.local.folders import read_adapter, read_base
from tests.tiny import make_base, planted_checkpoint
from trainer.checkpoint import DESCRIPTION, TENSORS

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what a model needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_a_base_has_the_digests_that_training_gives_it(tmp_path: Path, architecture: str) -> None:
    made = make_base(tmp_path, architecture)
    (made.path / ".hidden").write_text("no part of it")
    found = read_base(made.path)
    assert found.digest == made.digest
    assert (found.served.tokenizer, found.served.chat_template) == (made.tokenizer, made.chat_template)
    assert found.longest == made.longest


def test_a_checkpoint_is_read_as_training_wrote_it(tmp_path: Path) -> None:
    base = make_base(tmp_path)
    saved = planted_checkpoint(tmp_path / "checkpoints", base, seed=1)
    found = read_adapter(saved.path, saved.digest, read_base(base.path))
    assert found.digest == saved.digest
    assert found.tensors == (saved.path / TENSORS).read_bytes()
    assert sorted(saved.manifest.files) == [DESCRIPTION, TENSORS]
