"""A step in several passes is the step in one: for every algorithm, recomputed activations and parted logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventlog.weights_folder import Base
from tests.tiny import DIGEST, dpo_rows, make_base, request, sampled, sft_rows, write_rows
from trainer import batches, memory
from trainer.checkpoint import load_tensors
from trainer.request import Config, DatasetRef, DpoConfig, GrpoConfig, Lora, SftConfig, WarmupConfig, WarmupRequest
from trainer.stage import run_stage
from trainer.warmup import warm_up

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:The following .* keys did not match any targeted module:RuntimeWarning"),
]

LORA = Lora(rank=4, alpha=8)
COMMON: dict[str, Any] = {"steps": 3, "learning_rate": "0.01", "lora": LORA, "seed": 4}
CONFIGS: dict[str, Config] = {
    "sft": SftConfig(**COMMON, rows_per_step=4),
    "dpo": DpoConfig(**COMMON, pairs_per_step=4),
    "grpo": GrpoConfig(**COMMON, groups_per_step=2),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def runs(base: Base) -> list[dict[str, Any]]:
    return sampled(base, [5, 3])  # uneven rows, so that the mean over tokens is not that over rows


def trained(folder: Path, base: Base, runs: list[dict[str, Any]], kind: Any, **changes: Any) -> tuple[Any, Any, Any]:
    """Losses, tensors and runtime of a stage."""
    rows = {"sft": sft_rows(runs), "dpo": dpo_rows(runs), "grpo": runs}[kind]
    lines: list[Any] = []
    config = CONFIGS[kind].model_copy(update=changes)
    found = run_stage(request(folder, base, kind, rows, config), lines.append)
    assert found is not None
    assert [line["rows_per_pass"] for line in lines if line["kind"] == "memory"] != []
    losses = [line["loss"] for line in lines if line["kind"] == "step"]
    return losses, load_tensors(found), found.manifest.runtime


@pytest.mark.parametrize("kind", ["sft", "dpo", "grpo"])
@pytest.mark.parametrize("changes", [{"rows_per_pass": 2}, {"checkpointing": True}], ids=["passes", "checkpointing"])
def test_passes_and_recomputing_change_a_step_by_rounding_alone(
    tmp_path: Path, base: Base, runs: list[dict[str, Any]], kind: str, changes: dict[str, Any]
) -> None:
    import torch

    losses, tensors, runtime = trained(tmp_path / "whole", base, runs, kind)
    others, theirs, parted = trained(tmp_path / "parted", base, runs, kind, **changes)
    assert others == pytest.approx(losses, abs=1e-5)
    for name, tensor in tensors.items():
        torch.testing.assert_close(theirs[name], tensor, atol=2e-3, rtol=1e-3)
    assert "rows_per_pass" not in runtime
    assert "rows_per_pass" not in parted  # the configuration says it


def test_passes_that_memory_demands_are_told_and_kept_with_the_checkpoint(
    tmp_path: Path, base: Base, runs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _, _ = trained(tmp_path / "whole", base, runs, "sft")
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 1)
    losses, _, runtime = trained(tmp_path / "short", base, runs, "sft")
    assert losses == pytest.approx(whole, abs=1e-5)
    assert runtime["rows_per_pass"] == "1"


def test_a_warm_up_in_passes_is_the_one_in_a_whole(tmp_path: Path, base: Base, runs: list[dict[str, Any]]) -> None:
    file = write_rows(tmp_path / "rows.parquet", "sft", sft_rows(runs))
    losses = []
    for rows in (None, 3):
        lines: list[Any] = []
        config = WarmupConfig(steps=3, learning_rate="0.01", rows_per_step=6, rows_per_pass=rows)
        dataset = DatasetRef(path=str(file), digest=DIGEST, upto=9)
        warm_up(
            WarmupRequest(dataset=dataset, base=str(base.path), out=str(tmp_path / "out"), config=config), lines.append
        )
        losses.append([line["loss"] for line in lines if line["kind"] == "step"])
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)


def test_logits_in_parts_give_the_same_losses_and_weights(
    tmp_path: Path, base: Base, runs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    losses, tensors, _ = trained(tmp_path / "whole", base, runs, "grpo")
    sizes = []
    genuine = batches.logprobs_in_parts

    def counted(head: Any, states: Any, chosen: Any, temperature: float, size: int) -> Any:
        sizes.append(size)
        return genuine(head, states, chosen, temperature, size)

    monkeypatch.setattr(batches, "MOST_LOGITS", 20 * base.vocabulary)
    monkeypatch.setattr(batches, "logprobs_in_parts", counted)
    others, theirs, _ = trained(tmp_path / "parted", base, runs, "grpo")
    assert sizes
    assert others == pytest.approx(losses, abs=1e-6)
    for name, tensor in tensors.items():
        torch.testing.assert_close(theirs[name], tensor, atol=1e-3, rtol=1e-3)
