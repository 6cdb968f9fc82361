"""`flywheel deploy`: the files that serve a model elsewhere, written once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.test_cli import Flywheel, flywheel

__all__ = ["flywheel"]
pytestmark = [pytest.mark.serving, pytest.mark.llamacpp, pytest.mark.timeout(300)]


@pytest.mark.parametrize("target", ["modal", "baseten"])
def test_files_to_serve_a_model_are_written_once(flywheel: Flywheel, tmp_path: Path, target: str) -> None:
    model, out = tmp_path / "tiny.gguf", tmp_path / "app"
    model.write_bytes(b"GGUF")
    code, said, err = flywheel("deploy", target, str(model), str(out), "--name", "boats")
    assert (code, said.startswith(f"{target}: ")) == (0, True), err
    written = {each.name: each.read_text() for each in out.rglob("*") if each.is_file() and each.suffix != ".gguf"}
    assert any("boats" in text for text in written.values()), sorted(written)
    code, _, err = flywheel("deploy", target, str(model), str(out))
    assert (code, str(out) in "".join(err.split("\n"))) == (1, True), err
    assert json.dumps(written) == json.dumps(
        {each.name: each.read_text() for each in out.rglob("*") if each.is_file() and each.suffix != ".gguf"}
    )
