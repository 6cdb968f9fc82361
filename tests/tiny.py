"""A tiny base model and datasets sampled from it, as the log would hold them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from eventlog.weights_folder import Base
from projections.datasets.row_columns import TRAINED, Kind
from trainer.adapters import adapter_tensors, description_bytes, fresh, targets
from trainer.bases import load_model, load_tokenizer
from trainer.checkpoint import Checkpoint, CheckpointManifest, load_checkpoint, write_adapter, write_manifest
from trainer.request import Config, DatasetRef, Lora, ParentRef, SftConfig, TrainingRequest
from trainer.tiny import Shape, make_tiny

SMALL = Shape(vocabulary=300, hidden=64, layers=2, heads=4, key_heads=2, inner=96, longest=128)
"""About 100,000 parameters."""

TEXTS = tuple(f"open /boats/{number} and press “call” for the price of {number * 7}" for number in range(60))
DIGEST = "d" * 64

Row = Mapping[str, Any]


def make_base(folder: Path, architecture: Any = "qwen2", seed: int = 1, **sizes: int) -> Base:
    """A base model of about 100,000 parameters."""
    shape = Shape(**{**{name: getattr(SMALL, name) for name in SMALL.__slots__}, "architecture": architecture, **sizes})
    return make_tiny(folder, TEXTS, shape, seed)


def sampled(base: Base, sizes: Sequence[int], seed: int = 7) -> list[dict[str, Any]]:
    """GRPO rows of groups of these sizes: tokens and log-probabilities of the base itself, some of them masked.

    The first row of each group has the reward 1, the others 0.
    """
    import torch

    model = load_model(base, torch.float32)
    tokenizer = load_tokenizer(base)
    draw = random.Random(seed)  # noqa: S311 no secret
    generator = torch.Generator().manual_seed(seed)
    rows: list[dict[str, Any]] = []
    for group, size in enumerate(sizes):
        prompt = [int(token) for token in tokenizer.encode(f"open /boats/{group} and", add_special_tokens=False)]
        rewards = [1.0] + [0.0] * (size - 1)
        for sibling, advantage in enumerate(advantages(rewards)):
            ids, logprobs = _drawn(model, prompt, draw.randint(5, 9), generator)
            mask = [int(not 2 <= place < 4) for place in range(len(ids))]
            rows.append(
                {
                    "prompt_ids": prompt,
                    "completion_ids": ids,
                    "logprobs": [value if said else 0.0 for value, said in zip(logprobs, mask, strict=True)],
                    "mask": mask,
                    "advantage": advantage,
                    "reward": int(rewards[sibling] * 1e6),
                    "temperature": 1.0,
                    "run": f"g{group}-s{sibling}",
                    "group": f"g{group}",
                    "position": 10 * group + sibling + 1,
                    "tokenizer": base.tokenizer,
                    "chat_template": base.chat_template,
                }
            )
    return rows


def advantages(rewards: Sequence[float]) -> list[float]:
    """Relative to the group, with the deviation of the population."""
    mean = sum(rewards) / len(rewards)
    deviation = (sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) ** 0.5
    return [(reward - mean) / (deviation + 1e-6) for reward in rewards]


def _drawn(model: Any, prompt: list[int], length: int, generator: Any) -> tuple[list[int], list[float]]:
    import torch

    ids: list[int] = []
    logprobs: list[float] = []
    with torch.no_grad():
        for _ in range(length):
            logits = model(input_ids=torch.tensor([prompt + ids])).logits[0, -1]
            known = torch.log_softmax(logits.float(), -1)
            token = int(torch.multinomial(known.exp(), 1, generator=generator))
            ids.append(token)
            logprobs.append(float(known[token]))
    return ids, logprobs


def sft_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same runs as supervised rows."""
    return [{name: row[name] for name in TRAINED["sft"]} for row in rows]


def dpo_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The first of each group over each of the others."""
    best = {row["group"]: row for row in reversed(rows)}
    return [
        {
            **{name: row[name] for name in ("prompt_ids", "group", "position", "tokenizer", "chat_template")},
            **{f"chosen_{name}": best[row["group"]][column] for name, column in _SIDE},
            **{f"rejected_{name}": row[column] for name, column in _SIDE},
        }
        for row in rows
        if row is not best[row["group"]]
    ]


_SIDE = (("ids", "completion_ids"), ("mask", "mask"), ("run", "run"))


def write_rows(file: Path, kind: Kind, rows: Sequence[Row]) -> Path:
    """The rows as a Parquet file."""
    pl.DataFrame(list(rows), schema=dict(TRAINED[kind])).write_parquet(file)
    return file


def request(
    folder: Path, base: Base, kind: Kind, rows: Sequence[Row], config: Config, parent: ParentRef | None = None
) -> TrainingRequest:
    """A training run over these rows; its checkpoints go to `folder/checkpoints`."""
    folder.mkdir(parents=True, exist_ok=True)
    return TrainingRequest(
        dataset=DatasetRef(path=str(write_rows(folder / f"{kind}.parquet", kind, rows)), digest=DIGEST, upto=99),
        base=str(base.path),
        parent=parent,
        out=str(folder / "checkpoints"),
        config=config,
    )


def planted_checkpoint(out: Path, base: Base, seed: int, scale: float = 0.1) -> Checkpoint:
    """A checkpoint that nobody trained: an adapter of random tensors, so that it moves what the base says."""
    import torch

    lora = Lora(rank=4, alpha=8)
    generator = torch.Generator().manual_seed(seed)
    model = fresh(load_model(base, torch.float32), lora)
    drawn = adapter_tensors(model)
    tensors = {name: scale * torch.randn(drawn[name].shape, generator=generator) for name in drawn}
    making = out / f"making-{seed}"
    making.mkdir(parents=True)
    manifest = CheckpointManifest(
        base=base.digest,
        parent=None,
        dataset=DIGEST,
        upto=99,
        rows=DIGEST,
        tokenizer=base.tokenizer,
        chat_template=base.chat_template,
        lora=lora,
        targets=targets(model),
        config=SftConfig(steps=1, learning_rate="0.01", seed=seed),
        runtime={},
        files=write_adapter(making, tensors, description_bytes(model, base.digest)),
    )
    digest = write_manifest(making, manifest)
    return load_checkpoint(making.rename(out / digest), digest)


def convert_here(arguments: Sequence[str], weights: str) -> None:
    """A conversion without a process, whose imports take seconds. Raises NotConverted."""
    from api.errors import NotConverted
    from eventlog.errors import FlywheelError
    from trainer.convert import convert_weights

    base, form, *rest = arguments
    try:
        convert_weights(base, form, *rest)
    except FlywheelError as error:
        raise NotConverted(weights=weights, error=type(error).__name__, actual=str(error)) from error
