"""`flywheel base`: a base from a folder and from a file, and written as GGUF."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog.weights_folder import read_base
from tests.tiny import make_base

from .test_cli import Flywheel, flywheel, shown

__all__ = ["flywheel"]

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test keeps weights."""
    monkeypatch.setenv("FLYWHEEL_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def test_a_base_is_added_from_a_folder_exported_and_added_again_from_the_file(
    flywheel: Flywheel, tmp_path: Path, models: Path
) -> None:
    made = make_base(tmp_path / "made")
    added = shown(flywheel, "base", "add", str(made.path), "--name", "tiny", "--licence", "MIT")
    assert (added["name"], added["base"], added["licence"]) == ("tiny", made.digest, "MIT")
    assert read_base(Path(added["folder"])).digest == made.digest
    file = tmp_path / "tiny.gguf"
    code, out, err = flywheel("base", "export", "tiny", str(file), "--form", "gguf-f32")
    assert (code, out.split()[0]) == (0, made.digest), err
    code, out, err = flywheel("base", "add", str(file))
    assert (code, out.split()[:2]) == (0, ["tiny", "is"]), err
    listed = shown(flywheel, "base", "list")
    assert [each["parameters"] for each in listed] == [added["parameters"]] * 2
    assert {each["base"] for each in listed} == {each.name for each in models.iterdir() if each.is_dir()}
    found = shown(flywheel, "base", "show", listed[1]["base"])
    assert (found["present"], found["licence"], "tiny.gguf" in found["source"]) == (True, None, True)


def test_what_is_no_base_is_an_error_that_says_so_and_nothing_is_recorded(flywheel: Flywheel, tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(b"GGUF")
    (tmp_path / "empty").mkdir()
    for source in ("cut.gguf", "empty", "nowhere"):
        code, _, err = flywheel("base", "add", str(tmp_path / source))
        assert (code, source in " ".join(err.split())) == (1, True), err
    assert shown(flywheel, "base", "list") == []
    code, _, err = flywheel("base", "export", "nobody", str(tmp_path / "out.gguf"))
    assert (code, "nobody" in err, (tmp_path / "out.gguf").exists()) == (1, True, False)
