"""What training refuses, before the first step and with nothing written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog.errors import (
    BaseDiffers,
    BaseMissing,
    CheckpointAltered,
    CheckpointMissing,
    CheckpointUnreadable,
    FlywheelError,
)
from eventlog.weights_folder import MANIFEST, TENSORS, Base
from tests.tiny import Row, make_base, request, sampled
from trainer import errors
from trainer.checkpoint import load_checkpoint
from trainer.request import GrpoConfig, Lora, ParentRef, TrainingRequest
from trainer.stage import run_stage
from trainer.start import Line

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

LORA = Lora(rank=4, alpha=8)
GRPO = GrpoConfig(steps=3, learning_rate="0.01", groups_per_step=2, lora=LORA)

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def even(base: Base) -> Rows:
    return sampled(base, [4, 4, 4])


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, base: Base, even: Rows) -> ParentRef:
    """A checkpoint to go on from."""
    saved = run_stage(request(tmp_path_factory.mktemp("parent"), base, "grpo", even, GRPO), lambda _line: None)
    assert saved is not None
    return ParentRef(path=str(saved.path), digest=saved.digest)


def _longer(row: Row) -> Row:
    return {**row, "completion_ids": [5] * 200, "logprobs": [-1.0] * 200, "mask": [1] * 200}


BROKEN: dict[str, tuple[type[FlywheelError], Callable[[Rows], Rows]]] = {
    "nothing in it": (errors.DatasetEmpty, lambda _rows: []),
    "another tokenizer": (errors.OtherTokenizer, lambda rows: [rows[0], {**rows[1], "tokenizer": "a" * 64}]),
    "another template": (errors.OtherTemplate, lambda rows: [rows[0], {**rows[1], "chat_template": "a" * 64}]),
    "a foreign id": (errors.IdOutsideVocabulary, lambda rows: [*rows, {**rows[0], "prompt_ids": [5, 99999]}]),
    "a negative id": (errors.IdOutsideVocabulary, lambda rows: [*rows, {**rows[0], "prompt_ids": [5, -1]}]),
    "a row that is too long": (errors.RowTooLong, lambda rows: [*rows, dict(_longer(rows[0]))]),
    "no signal": (errors.NoSignal, lambda rows: [{**row, "advantage": 0.0} for row in rows]),
    "an older policy": (
        errors.StalePolicy,
        lambda rows: [{**row, "logprobs": [value - 0.05 for value in row["logprobs"]]} for row in rows],
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_dataset_that_does_not_fit_is_refused_before_the_first_step(
    tmp_path: Path, base: Base, even: Rows, what: str
) -> None:
    kind, broken = BROKEN[what]
    refused(tmp_path, request(tmp_path, base, "grpo", broken(even), GRPO), kind)


def refused(folder: Path, asked: TrainingRequest, kind: type[FlywheelError]) -> list[Line]:
    """What was said until then."""
    lines: list[Line] = []
    with pytest.raises(kind):
        run_stage(asked, lines.append)
    assert [line for line in lines if line["kind"] == "step"] == []
    assert not (folder / "checkpoints").exists()
    return lines


def test_uneven_groups_are_for_the_own_backend_alone(tmp_path: Path, base: Base, even: Rows) -> None:
    config = GRPO.model_copy(update={"backend": "trl", "groups_per_step": 3})
    refused(tmp_path, request(tmp_path, base, "grpo", even[1:], config), errors.GroupsUneven)


def test_the_backend_trl_takes_a_step_at_once_or_not_at_all(tmp_path: Path, base: Base, even: Rows) -> None:
    config = GRPO.model_copy(update={"backend": "trl", "rows_per_pass": 7})
    with pytest.raises(errors.NotSupported, match="a step of 8 rows, of which 7 go through the model at once"):
        run_stage(request(tmp_path, base, "grpo", even, config), lambda _line: None)
    assert not (tmp_path / "checkpoints").exists()


def test_runs_of_several_rows_are_for_the_own_backend_or_for_bnpo(tmp_path: Path, base: Base, even: Rows) -> None:
    split = [even[0] | {"run": even[1]["run"]}, *even[1:]]
    config = GRPO.model_copy(update={"backend": "trl", "aggregation": "grpo"})
    with pytest.raises(errors.NotSupported, match="its 11 runs are 12 rows"):
        run_stage(request(tmp_path, base, "grpo", split, config), lambda _line: None)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"])
def test_half_a_base_is_refused(tmp_path: Path, base: Base, even: Rows, missing: str) -> None:
    asked = request(tmp_path, base, "grpo", even, GRPO)
    copied = Path(shutil.copytree(base.path, tmp_path / "base"))
    (copied / missing).unlink()
    assert refused(tmp_path, asked.model_copy(update={"base": str(copied)}), BaseMissing) == []


@pytest.mark.parametrize("left", [slice(-100), slice(100), slice(4), slice(0)])
def test_a_base_that_was_cut_off_is_refused_before_anything_is_said(
    tmp_path: Path, base: Base, even: Rows, left: slice
) -> None:
    asked = request(tmp_path, base, "grpo", even, GRPO)
    copied = Path(shutil.copytree(base.path, tmp_path / "base"))
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[left])
    assert refused(tmp_path, asked.model_copy(update={"base": str(copied)}), BaseMissing) == []


def test_another_base_than_the_one_asked_for_is_refused(tmp_path: Path, base: Base, even: Rows) -> None:
    asked = request(tmp_path, base, "grpo", even, GRPO).model_copy(update={"base_digest": "a" * 64})
    assert refused(tmp_path, asked, BaseDiffers) == []


def test_a_parent_of_another_base_is_refused(tmp_path: Path, even: Rows, parent: ParentRef) -> None:
    other = make_base(tmp_path / "bases", seed=2)
    assert refused(tmp_path, request(tmp_path, other, "grpo", even, GRPO, parent), BaseDiffers) == []


def test_an_adapter_keeps_its_shape(tmp_path: Path, base: Base, even: Rows, parent: ParentRef) -> None:
    config = GRPO.model_copy(update={"lora": Lora(rank=2)})
    refused(tmp_path, request(tmp_path, base, "grpo", even, config, parent), errors.LoraDiffers)


def test_layers_that_are_not_there_are_refused(tmp_path: Path, base: Base, even: Rows) -> None:
    config = GRPO.model_copy(update={"lora": Lora(targets=("no_such_layer",))})
    refused(tmp_path, request(tmp_path, base, "grpo", even, config), errors.AdapterMismatch)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "change", "kind"),
    [
        (TENSORS, _cut, CheckpointAltered),
        (TENSORS, _flip, CheckpointAltered),
        (TENSORS, Path.unlink, CheckpointMissing),
        ("adapter_config.json", _flip, CheckpointAltered),
        (MANIFEST, _cut, CheckpointAltered),
        (MANIFEST, Path.unlink, CheckpointMissing),
    ],
)
def test_a_checkpoint_whose_bytes_changed_is_refused(
    tmp_path: Path, base: Base, even: Rows, parent: ParentRef, file: str, change: Any, kind: type[FlywheelError]
) -> None:
    copied = Path(shutil.copytree(parent.path, tmp_path / "parent"))
    change(copied / file)
    altered = ParentRef(path=str(copied), digest=parent.digest)
    refused(tmp_path, request(tmp_path, base, "grpo", even, GRPO, altered), kind)


def test_half_a_manifest_cannot_be_read(tmp_path: Path, parent: ParentRef) -> None:
    copied = Path(shutil.copytree(parent.path, tmp_path / "parent"))
    _cut(copied / MANIFEST)
    with pytest.raises(CheckpointUnreadable):
        load_checkpoint(copied)


def test_a_step_without_a_finite_loss_saves_nothing(tmp_path: Path, base: Base, even: Rows) -> None:
    wild = GRPO.model_copy(update={"learning_rate": "1e30", "steps": 9, "passes": 9})
    with pytest.raises(errors.TrainingDiverged):
        run_stage(request(tmp_path, base, "grpo", even, wild), lambda _line: None)
    assert not (tmp_path / "checkpoints").exists()
