"""SFT, DPO and the warm-up compute what all logits would give, and keep none of them for the backward pass.

GRPO reads a prompt that several rows have once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventlog.weights_folder import Base
from tests.tiny import dpo_rows, make_base, sampled, sft_rows, write_rows
from trainer import batches
from trainer.bases import load_model
from trainer.devices import Device
from trainer.dpo import make_dpo_trainer
from trainer.grpo import start_policy
from trainer.request import DpoConfig, Lora, SftConfig
from trainer.rows import read_rows
from trainer.sft import make_sft_trainer
from trainer.start import StageStart
from trainer.warmup import collate_supervised, supervised_loss

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

LORA = Lora(rank=4, alpha=8)
NUMBERS: dict[str, Any] = {"steps": 1, "learning_rate": "0.01", "lora": LORA, "device": "cpu"}
BETA = 0.5


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def runs(base: Base) -> list[dict[str, Any]]:
    return sampled(base, [3, 3])


def trainer_of(kind: Any, base: Base, runs: list[dict[str, Any]], folder: Path) -> Any:
    """TRL's trainer as a stage makes it, with an adapter that moves something."""
    import torch

    start = StageStart(base, Device("cpu", torch.float32), LORA, None, 4, 4)
    rows = read_rows(write_rows(folder / "rows.parquet", kind, {"sft": sft_rows, "dpo": dpo_rows}[kind](runs)), kind)
    if kind == "sft":
        made: Any = make_sft_trainer(start, rows, SftConfig(**NUMBERS, rows_per_step=4), str(folder))
    else:
        made = make_dpo_trainer(start, rows, DpoConfig(**NUMBERS, pairs_per_step=4, beta=str(BETA)), str(folder))
    generator = torch.Generator().manual_seed(1)
    for weight in made.model.parameters():
        if weight.requires_grad:
            weight.data += 0.1 * torch.randn(weight.shape, generator=generator)
    return made


def plain_sft(model: Any, batch: Any) -> Any:
    """The mean of -log π over the labelled tokens, from all logits."""
    import torch

    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())


def plain_dpo(model: Any, batch: Any) -> Any:
    """The sigmoid loss of the margins over the base, from all logits."""
    import torch

    def scores() -> Any:
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).logits
        known = torch.log_softmax(logits[:, :-1], -1).gather(-1, batch["input_ids"][:, 1:, None])[..., 0]
        return (known * batch["completion_mask"][:, 1:]).sum(1).chunk(2)

    chosen, rejected = scores()
    with torch.no_grad(), model.disable_adapter():
        held_chosen, held_rejected = scores()
    margins = BETA * ((chosen - held_chosen) - (rejected - held_rejected))
    return -torch.nn.functional.logsigmoid(margins).mean()


def measured(model: Any, compute: Callable[[], Any]) -> tuple[float, list[Any], int]:
    """A loss, its gradients, and the largest tensor besides the weights that was kept for them, in numbers."""
    import torch

    kept, own = [0], {each.untyped_storage().data_ptr() for each in model.parameters()}
    weights = [each for each in model.parameters() if each.requires_grad]

    def keep(tensor: Any) -> Any:
        kept.append(0 if tensor.untyped_storage().data_ptr() in own else tensor.numel())
        return tensor

    for weight in weights:
        weight.grad = None
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = compute()
        loss.backward()
    return float(loss.detach()), [weight.grad.clone() for weight in weights], max(kept)


@pytest.mark.parametrize(("kind", "plain"), [("sft", plain_sft), ("dpo", plain_dpo)], ids=["sft", "dpo"])
def test_losses_and_gradients_are_those_of_all_logits_and_no_logits_are_kept(
    kind: str, plain: Any, base: Base, runs: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from trl.trainer import utils

    monkeypatch.setattr(utils, "_CHUNKED_LOGPROB_CHUNK_SIZE", 64)  # several tiles of this small vocabulary
    trainer = trainer_of(kind, base, runs, tmp_path)
    batch = trainer.data_collator([trainer.train_dataset[place] for place in range(4)])
    trainer.model.train()
    loss, gradients, kept = measured(trainer.model, lambda: trainer.compute_loss(trainer.model, dict(batch)))
    whole, expected, all_kept = measured(trainer.model, lambda: plain(trainer.model, batch))
    assert loss == pytest.approx(whole, abs=1e-6)
    assert any(float(each.abs().max()) > 1e-4 for each in expected)
    for own, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(own, other, atol=1e-6, rtol=1e-4)
    rows, width = batch["input_ids"].shape
    assert all_kept >= rows * (width - 1) * base.vocabulary
    assert kept < all_kept / 2


def test_a_warm_up_in_parts_has_the_loss_and_gradients_of_all_logits_and_keeps_none(
    base: Base, runs: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    rows = read_rows(write_rows(tmp_path / "rows.parquet", "sft", sft_rows(runs)), "sft")
    model: Any = load_model(base, torch.float32)
    inputs = collate_supervised(rows.frame, 0, "cpu")
    whole, expected, all_kept = measured(model, lambda: supervised_loss(model, inputs))
    monkeypatch.setattr(batches, "MOST_LOGITS", 3 * len(inputs["labels"]) * base.vocabulary)  # three positions at once
    loss, gradients, kept = measured(model, lambda: supervised_loss(model, inputs))
    assert loss == pytest.approx(whole, abs=1e-6)
    for own, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(own, other, atol=1e-6, rtol=1e-4)
    assert all_kept >= inputs["labels"].numel() * base.vocabulary
    assert kept < all_kept / 2


@pytest.mark.parametrize("most", [batches.MOST_LOGITS, 1], ids=["whole", "in parts"])
def test_grpo_reads_a_prompt_of_several_rows_once_with_the_same_logprobs_and_gradients(
    most: int, base: Base, runs: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(batches, "MOST_LOGITS", most)
    longer = {**runs[0], "prompt_ids": [*runs[0]["prompt_ids"], 5, 6]}  # so that the others are padded
    rows = read_rows(write_rows(tmp_path / "rows.parquet", "grpo", [*runs, longer]), "grpo")
    policy = start_policy(StageStart(base, Device("cpu", torch.float32), LORA, None, 4, 4), rows)
    generator, read = torch.Generator().manual_seed(1), list[int]()
    for weight in policy.model.parameters():
        if weight.requires_grad:
            weight.data += 0.1 * torch.randn(weight.shape, generator=generator)
    policy.model.get_input_embeddings().register_forward_hook(
        lambda _model, given, _found: read.append(given[0].numel())
    )
    batch = batches.collate_rows(rows.frame, policy.pad, "cpu")

    def scored(*, shares_prompts: bool) -> tuple[float, list[Any]]:
        def compute() -> Any:
            return (replace(policy, shares_prompts=shares_prompts).logprobs(batch) * batch.mask).sum()

        read.clear()
        return measured(policy.model, compute)[:2]

    whole, expected = scored(shares_prompts=False)
    tokens = sum(read)
    loss, gradients = scored(shares_prompts=True)
    assert loss == pytest.approx(whole, abs=1e-4)
    assert any(float(each.abs().max()) > 1e-3 for each in expected)
    for own, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4)
    before = batch.ids.shape[1] - batch.width - 1
    assert (tokens, sum(read)) == (7 * (before + batch.width), 3 * before + 7 * batch.width)
