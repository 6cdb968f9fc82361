"""Files of a deploy target: a file's bytes are read once until it changes."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest

from agents.models.servers.plan import Artefact
from agents.models.servers.runner import look_up_file
from eventlog import weights_folder


def digest_at(place: Path) -> str:
    found = look_up_file(PurePosixPath(place))
    assert found is not None
    return found.digest


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "adapter.gguf"
    place.write_bytes(b"GGUF one")
    assert digest_at(place) == sha256(b"GGUF one").hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(weights_folder, "_hash", lambda *_: pytest.fail("the file was read again"))
        assert digest_at(place) == sha256(b"GGUF one").hexdigest()
    place.write_bytes(b"GGUF two")
    assert digest_at(place) == sha256(b"GGUF two").hexdigest()
    place.unlink()
    assert look_up_file(PurePosixPath(place)) is None
    place.mkdir()
    assert look_up_file(PurePosixPath(place)) == Artefact(is_folder=True, digest="")
