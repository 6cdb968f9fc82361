"""What is put into a model store: whole, without the right to write, and recorded as what it is."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import pytest

from api.house import House
from api.training import publish as publishing
from api.training.errors import NoBase
from api.training.publish import publish
from eventlog.blobs import Blob
from eventlog.events import CheckpointFile, CheckpointSaved
from eventlog.store import Append
from eventlog.weights_folder import Base, folder_digest
from projections.checkpoints import WEIGHTS, WeightsState
from tests.golden.test_golden_samples import sample
from tests.learned import with_models
from trainer.atomic_move import move_in
from trainer.scratch_folder import scratch_folder


def saved(house: House, folder: Path, algorithm: str) -> WeightsState:
    """The log says that a stage gave the files of a folder."""
    bodies = {file.name: Blob("application/octet-stream", file.read_bytes()) for file in folder.iterdir()}
    files = tuple(CheckpointFile(name=name, blob=house.blobs.put([blob])[0]) for name, blob in bodies.items())
    event = sample("CheckpointSaved", checkpoint=folder_digest(folder), algorithm=algorithm)
    assert isinstance(event, CheckpointSaved)
    event = event.model_copy(update={"files": files})
    house.store.append([Append(f"checkpoint/{event.checkpoint}", (event,), "test")])
    return house.views().find(WEIGHTS)[event.checkpoint]


@pytest.fixture
def house(empty_house: House, tmp_path: Path) -> House:
    return with_models(empty_house, tmp_path / "models")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"numbers")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


def test_what_was_killed_before_it_took_the_right_to_write_is_made_whole(
    house: House, weights: Path, store: Path
) -> None:
    base = saved(house, weights, "warmup")
    event = publish(house, base, None, "peft", str(store), "test")
    lies = Path(event.place)
    lies.chmod(0o755)
    head = house.store.head()
    assert publish(house, base, None, "peft", str(store), "test") == event
    assert (S_IMODE(lies.stat().st_mode), house.store.head()) == (0o555, head)


def test_other_bytes_at_the_same_place_are_another_fact(
    house: House, weights: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version writes a form otherwise, and what lay there is gone."""
    adapter, base = saved(house, weights, "sft"), Base(weights, "b" * 64, "t" * 64, "c" * 64, "llama", 9, 9)
    for body in (b"one", b"one", b"two"):
        monkeypatch.setattr(publishing, "export_to", lambda *told, body=body: told[-1].write_bytes(body))
        event = publish(house, adapter, base, "gguf-f16", str(store), "test")
        (place,) = house.views().find(WEIGHTS)[adapter.checkpoint].published
        assert (place.place, place.digest) == (event.place, folder_digest(Path(event.place)))
        shutil.rmtree(event.place)
    told = [recorded for recorded in house.store.read() if recorded.event.type == "CheckpointPublished"]
    assert len(told) == 2


def test_an_adapter_is_not_published_without_its_base(house: House, weights: Path, store: Path) -> None:
    with pytest.raises(NoBase, match="is an adapter"):
        publish(house, saved(house, weights, "sft"), None, "gguf-f16", str(store), "test")
    assert list(store.iterdir()) == []


MAKES = """
import sys
from pathlib import Path
from trainer.scratch_folder import scratch_folder
with scratch_folder(Path(sys.argv[1]), sys.argv[2]) as making:
    (making / "file").write_text("half of it")
    print("made", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_publisher_left_is_removed_by_the_next_one(house: House, weights: Path, store: Path) -> None:
    base = saved(house, weights, "warmup")
    for folder, doing in ((house.settings.model_folder, "exporting"), (store, "publishing")):
        command = [sys.executable, "-c", MAKES, str(folder), doing]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"made\n"
            process.kill()
        (left,) = folder.glob(f".{doing}-*")
        assert (left / "file").exists()
    event = publish(house, base, None, "peft", str(store), "test")
    assert Path(event.place).is_dir()
    assert [left for folder in (house.settings.model_folder, store) for left in folder.glob(".*-*")] == []


def test_what_somebody_is_at_is_nobody_elses_to_remove(tmp_path: Path) -> None:
    with scratch_folder(tmp_path, "publishing"):
        lock = (tmp_path / ".publishing.lock").open()
        with lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / ".publishing.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_of_two_who_make_the_same_folder_the_first_one_stays(tmp_path: Path) -> None:
    first, second, place = (tmp_path / name for name in ("first", "second", "place"))
    for folder in (first, second):
        folder.mkdir()
        (folder / "made_by").write_text(folder.name)
    move_in(first, place)
    move_in(second, place)
    assert ((place / "made_by").read_text(), second.is_dir()) == ("first", True)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        move_in(second, tmp_path / "file")
