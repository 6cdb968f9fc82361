"""The one reader of weights folders: what it refuses, and that a file is hashed once while it stays as it is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog import weights_folder
from eventlog.errors import BaseDiffers, BaseMissing, CheckpointAltered, CheckpointMissing, CheckpointUnreadable
from eventlog.weights_folder import DESCRIPTION, MANIFEST, TENSORS, folder_digest, read_base, read_checkpoint

CONFIG = {"model_type": "qwen2", "vocab_size": 9, "max_position_embeddings": 32, "eos_token_id": 7}
HEADER = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()


@pytest.fixture(autouse=True)
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is hashed in a test, piece by piece; nothing is known before it."""
    pieces: list[bytes] = []

    class Counting:
        def __init__(self) -> None:
            self._content = hashlib.sha256()

        def update(self, piece: bytes) -> None:
            pieces.append(piece)
            self._content.update(piece)

        def hexdigest(self) -> str:
            return self._content.hexdigest()

    monkeypatch.setattr(weights_folder, "_KNOWN", weights_folder._Digests())
    monkeypatch.setattr(weights_folder, "hashlib", type("Hashes", (), {"sha256": Counting}))
    return pieces


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "model.safetensors").write_bytes(len(HEADER).to_bytes(8, "little") + HEADER + b"abcd")
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    contents = {TENSORS: b"tensors", DESCRIPTION: b"{}"}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    (folder / MANIFEST).write_text(json.dumps({"base": "b" * 64, "files": files}))
    return folder


def change(folder: Path, name: str, **facts: Any) -> None:
    (folder / name).write_text(json.dumps(CONFIG | facts))


def test_a_base_is_read_with_the_digests_of_its_visible_files(base: Path) -> None:
    (base / ".hidden").write_text("no part of it")
    found = read_base(base)
    lines = [
        f"{file.name}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n"
        for file in sorted(base.iterdir())
        if file.name != ".hidden"
    ]
    assert found.digest == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert found.tokenizer == hashlib.sha256(b"{}").hexdigest()
    assert (found.architecture, found.vocabulary, found.longest) == ("qwen2", 9, 32)
    assert (found.ends, found.sees_all) == (frozenset({7}), True)
    with pytest.raises(BaseDiffers, match=found.digest):
        read_base(base, "e" * 64)


def test_what_ends_a_turn_is_what_the_generation_config_says_if_it_says_so(base: Path) -> None:
    change(base, "generation_config.json", eos_token_id=[3, 4])
    assert read_base(base).ends == {3, 4}
    (base / "generation_config.json").write_text("{}")
    assert read_base(base).ends == {7}
    change(base, "config.json", eos_token_id=None)
    assert read_base(base).ends == set()


@pytest.mark.parametrize(
    ("facts", "sees_all"),
    [
        ({"sliding_window": 8}, False),
        ({"sliding_window": 8, "use_sliding_window": False}, True),
        ({"layer_types": ["full_attention", "sliding_attention"]}, False),
        ({"layer_types": ["full_attention"]}, True),
    ],
)
def test_a_base_whose_layers_look_through_a_window_is_known(base: Path, facts: dict[str, Any], sees_all: bool) -> None:
    change(base, "config.json", **facts)
    assert read_base(base).sees_all is sees_all


@pytest.mark.parametrize("content", ["{", "[]", '{"model_type": "qwen2"}', json.dumps(CONFIG | {"vocab_size": "many"})])
def test_a_base_with_a_broken_configuration_is_refused(base: Path, content: str) -> None:
    (base / "config.json").write_text(content)
    with pytest.raises(BaseMissing, match=r"config\.json"):
        read_base(base)


@pytest.mark.parametrize("left", [slice(-1), slice(4), slice(0)])
def test_weights_that_were_cut_off_are_refused(base: Path, left: slice) -> None:
    weights = base / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[left])
    with pytest.raises(BaseMissing, match=r"model\.safetensors"):
        read_base(base)


@pytest.mark.parametrize("content", ["{", "[]", '{"base": "b"}', '{"base": "b", "files": []}'])
def test_a_manifest_that_says_too_little_is_refused(checkpoint: Path, content: str) -> None:
    (checkpoint / MANIFEST).write_text(content)
    with pytest.raises(CheckpointUnreadable):
        read_checkpoint(checkpoint)


@pytest.mark.parametrize("look", [lambda found: found.check(), lambda found: found.read(TENSORS)])
def test_a_checkpoint_whose_bytes_changed_after_they_were_hashed_is_refused(
    checkpoint: Path, look: Callable[[Any], object]
) -> None:
    found = read_checkpoint(checkpoint)
    look(found)
    before = (checkpoint / TENSORS).stat()
    (checkpoint / TENSORS).write_bytes(b"tensorz")
    os.utime(checkpoint / TENSORS, ns=(before.st_atime_ns, before.st_mtime_ns - 1))
    with pytest.raises(CheckpointAltered, match=TENSORS):
        look(found)
    (checkpoint / TENSORS).unlink()
    with pytest.raises(CheckpointMissing, match=TENSORS):
        look(found)
    with pytest.raises(CheckpointAltered, match=MANIFEST):
        read_checkpoint(checkpoint, "e" * 64)


def test_a_first_load_hashes_each_file_once(base: Path, checkpoint: Path, hashed: list[bytes]) -> None:
    named = read_base(base)
    for _ in range(3):
        assert read_base(base, named.digest) == named
        assert folder_digest(base) == named.digest
    found = read_checkpoint(checkpoint)
    found.check()
    assert (found.read(TENSORS), found.read(DESCRIPTION)) == (b"tensors", b"{}")
    files = [file.read_bytes() for folder in (base, checkpoint) for file in folder.iterdir()]
    assert sorted(piece for piece in hashed if piece in files) == sorted(files)


def test_a_file_of_a_clock_that_runs_ahead_is_hashed_each_time(
    checkpoint: Path, hashed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights_folder, "time_ns", lambda: 0)
    found = read_checkpoint(checkpoint)
    found.check()
    found.check()
    assert hashed.count(b"tensors") == 2


def test_a_file_is_not_taken_for_known_before_a_change_to_it_would_show(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(weights_folder, "sleep", waited.append)
    written = (checkpoint / TENSORS).stat().st_ctime_ns
    monkeypatch.setattr(weights_folder, "time_ns", lambda: written + 5_000_000)
    weights_folder.file_digest(checkpoint / TENSORS)
    weights_folder.file_digest(checkpoint / TENSORS)
    assert waited == [0.015]
