"""DPO on pairs of chosen and rejected completions, with TRL's trainer. It takes token ids; no text is retokenised.

TRL's text pipeline would add a second end token and would train on the environment's tokens. This module bypasses it:
rows go in unchanged, with the masks from the log.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from projections.datasets.row_columns import PER_TOKEN

from .bases import load_tokenizer
from .request import DpoConfig
from .rows import TrainingRows
from .start import Emit, StageStart, policy_model
from .trl_settings import kind_for, on_one_device, run_trainer, settings, sharing_trainer

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import Tensor
    from trl import DPOTrainer


def train_dpo(start: StageStart, rows: TrainingRows, config: DpoConfig, emit: Emit) -> PeftModel:
    """Train on pairs; the reference policy is the initial weights."""
    with tempfile.TemporaryDirectory() as folder:
        return run_trainer(make_dpo_trainer(start, rows, config, folder), emit, _measures)


def make_dpo_trainer(start: StageStart, rows: TrainingRows, config: DpoConfig, folder: str) -> DPOTrainer:
    """TRL's trainer over the unchanged rows."""
    import datasets
    from trl import DPOConfig as Arguments

    tokenizer = load_tokenizer(start.base)
    pad = int(tokenizer.pad_token_id or 0)
    arguments = Arguments(
        **settings(start, config, folder, config.pairs_per_step, start.rows_per_pass),
        beta=float(config.beta),
        loss_type="sigmoid",
        max_length=None,
    )
    return sharing_trainer(kind_for(_trainer_class(), config, start), config.pairs_per_step, start)(
        model=policy_model(start),
        args=on_one_device(arguments),
        train_dataset=datasets.Dataset.from_list(rows.frame.select(PER_TOKEN["dpo"]).to_dicts()),
        processing_class=tokenizer,
        data_collator=lambda pairs: collate_pairs(pairs, pad),
    )


def collate_pairs(pairs: Sequence[Mapping[str, list[int]]], pad: int) -> dict[str, Tensor]:
    """Pairs as tensors: all chosen rows, then all rejected ones, padded on the right."""
    import torch

    sides = [(pair, side) for side in ("chosen", "rejected") for pair in pairs]
    ids = [pair["prompt_ids"] + pair[f"{side}_ids"] for pair, side in sides]
    masks = [[0] * len(pair["prompt_ids"]) + pair[f"{side}_mask"] for pair, side in sides]
    width = max(map(len, ids))

    def padded(lists: Sequence[list[int]], fill: int) -> Tensor:
        return torch.tensor([one + [fill] * (width - len(one)) for one in lists])

    return {
        "input_ids": padded(ids, pad),
        "attention_mask": padded([[1] * len(one) for one in ids], 0),
        "completion_mask": padded(masks, 0),
    }


def _trainer_class() -> type[DPOTrainer]:
    from trl import DPOTrainer

    class TokenDPOTrainer(DPOTrainer):  # type: ignore[misc]
        """DPO over rows of token ids."""

        def _prepare_dataset(self, dataset: Any, *_rest: Any, **_more: Any) -> Any:
            return dataset

    return TokenDPOTrainer


def _measures(logs: Mapping[str, float]) -> Mapping[str, float | None]:
    return {"reward": logs.get("rewards/margins")}
