"""The stages on a model of about 100,000 parameters: repeatable, and moved by all that should move them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eventlog.weights_folder import TENSORS, Base
from projections.datasets.row_columns import Kind
from tests.tiny import dpo_rows, make_base, request, sampled, sft_rows
from trainer.checkpoint import Checkpoint, load_checkpoint, load_tensors
from trainer.request import Config, DpoConfig, GrpoConfig, Lora, ParentRef, SftConfig, TrainingRequest
from trainer.stage import CURVES, LINES, run_stage
from trainer.start import Line

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func':UserWarning"),
]

LORA = Lora(rank=4, alpha=8)
SFT = SftConfig(steps=3, learning_rate="0.01", rows_per_step=4, lora=LORA)
DPO = DpoConfig(steps=3, learning_rate="0.01", pairs_per_step=3)
GRPO = GrpoConfig(steps=3, learning_rate="0.01", groups_per_step=2, passes=3, lora=LORA)

Rows = list[dict[str, Any]]
GoingOn = Callable[[Any], tuple[Checkpoint, list[Line]]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def even(base: Base) -> Rows:
    return sampled(base, [4, 4, 4])


@pytest.fixture(scope="module")
def uneven(base: Base) -> Rows:
    return sampled(base, [3, 5, 2])


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, base: Base, even: Rows) -> ParentRef:
    """A checkpoint of SFT to go on from."""
    saved, _ = run(request(tmp_path_factory.mktemp("parent"), base, "sft", sft_rows(even), SFT))
    return ParentRef(path=str(saved.path), digest=saved.digest)


@pytest.fixture(scope="module")
def going_on(tmp_path_factory: pytest.TempPathFactory, base: Base, even: Rows, parent: ParentRef) -> GoingOn:
    """What a stage of GRPO that goes on from the parent gives and says with a backend. Each is trained once."""

    @cache
    def trained(backend: Any) -> tuple[Checkpoint, list[Line]]:
        return run(request(tmp_path_factory.mktemp(backend), base, "grpo", even, going_on_with(backend), parent))

    return trained


def going_on_with(backend: Any) -> GrpoConfig:
    return GRPO.model_copy(update={"backend": backend, "lora": None, "staleness": "9", "outside": "1"})


def run(asked: TrainingRequest) -> tuple[Checkpoint, list[Line]]:
    lines: list[Line] = []
    saved = run_stage(asked, lines.append)
    assert saved is not None
    assert "memory" not in (saved.path / LINES).read_text()
    return saved, [line for line in lines if line["kind"] != "memory"]  # free memory differs each time


def steps(lines: list[Line], name: str) -> list[Any]:
    return [line[name] for line in lines if line["kind"] == "step"]


@pytest.mark.parametrize("kind", ["sft", "dpo", "grpo", "grpo-trl"])
def test_the_same_dataset_and_configuration_give_the_same_checkpoint(
    tmp_path: Path, base: Base, even: Rows, uneven: Rows, parent: ParentRef, kind: str
) -> None:
    asked: dict[str, tuple[Kind, Rows, Config, ParentRef | None]] = {
        "sft": ("sft", sft_rows(uneven), SFT, None),
        "dpo": ("dpo", dpo_rows(uneven), DPO, parent),
        "grpo": ("grpo", uneven, GRPO, None),
        "grpo-trl": ("grpo", even, GRPO.model_copy(update={"backend": "trl"}), None),
    }
    first, lines = run(request(tmp_path / "first", base, *asked[kind]))
    second, again = run(request(tmp_path / "second", base, *asked[kind]))
    assert (first.digest, lines) == (second.digest, again)
    assert steps(lines, "step") == [1, 2, 3]
    assert [json.loads(line) for line in (first.path / LINES).read_text().splitlines()] == lines
    assert (first.path / CURVES).read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in first.path.parent.iterdir()) == [first.digest]


def test_a_manifest_says_what_a_checkpoint_came_from(tmp_path: Path, base: Base, even: Rows, parent: ParentRef) -> None:
    saved, _ = run(request(tmp_path, base, "dpo", dpo_rows(even), DPO, parent))
    manifest = saved.manifest
    assert (manifest.parent, manifest.base, manifest.upto) == (parent.digest, base.digest, 99)
    assert (manifest.lora, manifest.config) == (LORA, DPO)
    assert len(manifest.targets) == 2 * 7
    assert manifest.targets == tuple(sorted(manifest.targets))
    assert "model.layers.1.self_attn.q_proj" in manifest.targets
    assert {"instruction_set", "threads", "torch", "trl", "peft", "transformers"} <= manifest.runtime.keys()
    assert manifest.runtime["threads"] == "1"


def test_training_learns_what_it_is_shown(tmp_path: Path, base: Base, even: Rows) -> None:
    longer = SFT.model_copy(update={"steps": 25})
    _, lines = run(request(tmp_path, base, "sft", sft_rows(even[:4]), longer))
    losses = steps(lines, "loss")
    # Embeddings are not trained, and those of a random model are small: more than this is hardly to be had.
    assert losses[-1] < losses[0] - 0.5


def test_a_policy_comes_to_prefer_what_was_rewarded(tmp_path: Path, base: Base, even: Rows) -> None:
    free = {"steps": 12, "groups_per_step": 3, "passes": 12, "beta": "0", "epsilon": "10"}
    _, lines = run(request(tmp_path, base, "grpo", even, GRPO.model_copy(update=free)))
    losses = steps(lines, "loss")
    assert losses[-1] < losses[0] - 0.1


def test_both_backends_take_the_same_steps(tmp_path: Path, base: Base, even: Rows, parent: ParentRef) -> None:
    config = GRPO.model_copy(update={"steps": 4, "passes": 2, "lora": None, "staleness": "9", "outside": "1"})
    _, own = run(request(tmp_path / "own", base, "grpo", even, config, parent))
    on_trl = config.model_copy(update={"backend": "trl"})
    _, trl = run(request(tmp_path / "trl", base, "grpo", even, on_trl, parent))
    assert steps(own, "loss") == pytest.approx(steps(trl, "loss"), abs=1e-4)
    assert steps(own, "kl") == pytest.approx(steps(trl, "kl"), abs=1e-4)
    assert steps(own, "clip_fraction") == pytest.approx(steps(trl, "clip_fraction"), abs=1e-6)
    assert max(steps(own, "kl")) > 1e-4


@pytest.mark.parametrize("backend", ["own", "trl"])
@pytest.mark.parametrize("moving", ["adapter", "logged", "kl"])
def test_nothing_that_training_is_given_is_ignored(
    tmp_path: Path, base: Base, even: Rows, parent: ParentRef, going_on: GoingOn, backend: Any, moving: str
) -> None:
    config = going_on_with(backend)
    before, _ = going_on(backend)
    match moving:
        case "adapter":
            other, _ = run(request(tmp_path / "sft", base, "sft", sft_rows(even), SFT.model_copy(update={"seed": 5})))
            parent = ParentRef(path=str(other.path), digest=other.digest)
        case "logged":
            even = [
                {
                    **row,
                    "logprobs": [value - 0.1 * said for value, said in zip(row["logprobs"], row["mask"], strict=True)],
                }
                for row in even
            ]
        case "kl":
            config = config.model_copy(update={"beta": "0.5"})
    after, _ = run(request(tmp_path / "after", base, "grpo", even, config, parent))
    assert before.manifest.files[TENSORS] != after.manifest.files[TENSORS]


@pytest.mark.parametrize("backend", ["own", "trl"])
def test_a_parent_is_where_training_begins_and_by_default_what_it_is_held_to(
    tmp_path: Path, base: Base, even: Rows, parent: ParentRef, going_on: GoingOn, backend: Any
) -> None:
    config = going_on_with(backend).model_copy(update={"reference": "base"})
    _, held = going_on(backend)
    _, free = run(request(tmp_path, base, "grpo", even, config, parent))
    assert steps(held, "kl")[0] == pytest.approx(0, abs=1e-9)
    assert steps(free, "kl")[0] > 1e-4


def test_flat_groups_are_counted_and_change_nothing(tmp_path: Path, base: Base, uneven: Rows) -> None:
    flat = [{**row, "group": "flat", "advantage": 0.0} for row in uneven[:3]]
    alone, _ = run(request(tmp_path / "alone", base, "grpo", uneven, GRPO))
    beside, lines = run(request(tmp_path / "beside", base, "grpo", [*flat, *uneven], GRPO))
    assert {"kind": "groups", "groups": 3, "flat_groups_dropped": 1} in lines
    assert alone.manifest.files[TENSORS] == beside.manifest.files[TENSORS]
    assert alone.digest != beside.digest


def test_memory_bounds_the_pass_and_not_the_step(tmp_path: Path, base: Base, uneven: Rows) -> None:
    _, whole = run(request(tmp_path / "whole", base, "grpo", uneven, GRPO))
    _, parts = run(request(tmp_path / "parts", base, "grpo", uneven, GRPO.model_copy(update={"rows_per_pass": 3})))
    assert steps(whole, "loss") == pytest.approx(steps(parts, "loss"), abs=1e-5)
    assert steps(whole, "kl") == pytest.approx(steps(parts, "kl"), abs=1e-5)


def test_what_is_loaded_is_what_was_saved(parent: ParentRef) -> None:
    tensors = load_tensors(load_checkpoint(Path(parent.path), parent.digest))
    assert any(float(tensor.abs().max()) > 0 for name, tensor in tensors.items() if "lora_B" in name)
