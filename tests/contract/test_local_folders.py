"""Folders as training writes them are what the backend reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.models.local.adapters import read_adapter
from eventlog.weights_folder import DESCRIPTION, TENSORS, read_base
from tests.tiny import make_base, planted_checkpoint

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what a model needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def test_a_checkpoint_is_read_as_training_wrote_it(tmp_path: Path) -> None:
    base = make_base(tmp_path)
    saved = planted_checkpoint(tmp_path / "checkpoints", base, seed=1)
    found = read_adapter(saved.path, saved.digest, read_base(base.path))
    assert found.digest == saved.digest
    assert found.tensors == (saved.path / TENSORS).read_bytes()
    assert sorted(saved.manifest.files) == [DESCRIPTION, TENSORS]
