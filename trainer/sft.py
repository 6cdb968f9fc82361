"""SFT on the tokens of selected runs, with TRL's trainer. It takes token ids; no text is retokenised."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .bases import load_tokenizer
from .request import SftConfig
from .rows import TrainingRows
from .start import Emit, StageStart, policy_model
from .trl_settings import kind_for, on_one_device, run_trainer, settings, sharing_trainer

if TYPE_CHECKING:
    from peft import PeftModel
    from trl import SFTTrainer

_IGNORED = -100
"""Label of a token without loss."""


def train_sft(start: StageStart, rows: TrainingRows, config: SftConfig, emit: Emit) -> PeftModel:
    """Train on the tokens that the model generated; prompt and environment tokens are only context."""
    with tempfile.TemporaryDirectory() as folder:
        return run_trainer(make_sft_trainer(start, rows, config, folder), emit, _measures)


def make_sft_trainer(start: StageStart, rows: TrainingRows, config: SftConfig, folder: str) -> SFTTrainer:
    """TRL's trainer over the unchanged rows."""
    import datasets
    from trl import SFTConfig as Arguments
    from trl import SFTTrainer

    arguments = Arguments(
        **settings(start, config, folder, config.rows_per_step, start.rows_per_pass),
        max_length=None,
        packing=False,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    return sharing_trainer(kind_for(SFTTrainer, config, start), config.rows_per_step, start)(
        model=policy_model(start),
        args=on_one_device(arguments),
        train_dataset=datasets.Dataset.from_list([_example(row) for row in rows.frame.iter_rows(named=True)]),
        processing_class=load_tokenizer(start.base),
    )


def _example(row: Mapping[str, list[int]]) -> dict[str, list[int]]:
    said = [token if mask else _IGNORED for token, mask in zip(row["completion_ids"], row["mask"], strict=True)]
    return {
        "input_ids": row["prompt_ids"] + row["completion_ids"],
        "labels": [_IGNORED] * len(row["prompt_ids"]) + said,
    }


def _measures(_logs: Mapping[str, float]) -> Mapping[str, float | None]:
    return {}
