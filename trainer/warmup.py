"""The warm-up: full-parameter training of a randomly initialised base model on demonstrations.

An adapter cannot train a random model, because it leaves the embeddings unchanged. So only this stage trains every
weight. It writes a base model folder like `tiny.py`, with a description of its inputs in `warmup.json`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from eventlog.chain import canonical
from eventlog.weights_folder import Base, folder_digest, read_base

from . import batches
from .bases import check_rows, load_model, load_tokenizer
from .devices import prepare_device, runtime
from .gguf_names import ARCHITECTURES
from .memory import plan_stage
from .request import WarmupConfig, WarmupRequest
from .rows import TrainingRows, read_rows
from .start import Emit, step_line

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = "warmup.json"
_IGNORED = -100


def warm_up(request: WarmupRequest, emit: Emit) -> Base:
    """Train all weights of a base model on supervised rows; return the new base model, in `out/<digest>`.

    Raises any error of trainer/errors.py, all but TrainingDiverged before the first step.
    """
    config = request.config
    rows = read_rows(Path(request.dataset.path), "sft")
    base = read_base(Path(request.base), request.base_digest)
    check_rows(rows, base)
    device = prepare_device(config.device, config.threads, config.seed)
    emit({"kind": "started", "algorithm": "warmup", "rows": len(rows.frame), "steps": config.steps})
    plan = plan_stage(config, base, device, rows.frame)
    emit(plan.line())
    model = _train(base, rows, config, device.name, plan.rows, emit)
    is_whole = plan.rows >= min(config.rows_per_step, len(rows.frame))
    source = {
        "base": base.digest,
        "dataset": request.dataset.digest,
        "upto": request.dataset.upto,
        "rows": rows.digest,
        "config": config.model_dump(mode="json"),
        "runtime": runtime(device) | ({} if is_whole else {"rows_per_pass": str(plan.rows)}),
    }
    return _save(Path(request.out), base, model, canonical(source))


def _train(base: Base, rows: TrainingRows, config: WarmupConfig, device: str, rows_per_pass: int, emit: Emit) -> Any:
    import torch

    model: Any = load_model(base, torch.float32).to(device).train()
    if config.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    pad = int(load_tokenizer(base).pad_token_id or 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=float(config.learning_rate), weight_decay=0.01)
    steps = islice(_batches(len(rows.frame), config), config.steps)
    for step, taken in enumerate(steps, start=1):
        optimizer.zero_grad()
        tokens = _tokens(rows.frame[list(taken)])
        value = 0.0
        for first in range(0, len(taken), rows_per_pass):
            part = rows.frame[list(taken[first : first + rows_per_pass])]
            loss = supervised_loss(model, collate_supervised(part, pad, device))
            share = 1.0 if len(part) == len(taken) else _tokens(part) / tokens
            value += float(loss.detach()) * share
            (loss * share).backward()
        line = step_line(step, value)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        emit(line)
    return model.to("cpu")


def supervised_loss(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """Mean of -log π over the labelled tokens. Where all logits would be large, they are computed in parts."""
    labels = inputs["labels"]
    at_once = batches.MOST_LOGITS // (len(labels) * int(model.config.vocab_size))
    if at_once >= labels.shape[1] or model.config.model_type not in ARCHITECTURES:
        loss: Tensor = model(**inputs, use_cache=False).loss
        return loss
    own = {name: each for name, each in inputs.items() if name != "labels"}
    states = model.base_model(**own, use_cache=False).last_hidden_state[:, :-1]
    chosen = labels[:, 1:]
    said = chosen != _IGNORED
    head = model.get_output_embeddings()
    found = batches.logprobs_in_parts(head, states, chosen.clamp(min=0), 1.0, max(1, at_once))
    return -(found * said).sum() / said.sum()


def _tokens(frame: pl.DataFrame) -> int:
    """Number of tokens that the model generated."""
    return int(frame["mask"].list.sum().cast(pl.Int64).sum())


def _batches(rows: int, config: WarmupConfig) -> Iterator[Sequence[int]]:
    """Batches of row numbers. Each epoch uses every row at most once, in an order drawn from the seed."""
    size = min(config.rows_per_step, rows)
    for turn in count():
        mixed = sorted(range(rows), key=lambda row: sha256(f"{config.seed}:{turn}:{row}".encode()).digest())
        for first in range(0, rows - size + 1, size):
            yield mixed[first : first + size]


def collate_supervised(frame: pl.DataFrame, pad: int, device: str) -> dict[str, Tensor]:
    """Supervised rows as tensors, padded on the right; only tokens that the model generated are labels."""
    import torch

    rows = frame.select("prompt_ids", "completion_ids", "mask").rows()
    ids = [[*prompt, *completion] for prompt, completion, _ in rows]
    labels = [
        [_IGNORED] * len(prompt) + [token if said else _IGNORED for token, said in zip(completion, mask, strict=True)]
        for prompt, completion, mask in rows
    ]
    width = max(map(len, ids))

    def padded(lists: Sequence[Sequence[int]], fill: int) -> Tensor:
        return torch.tensor([[*one, *[fill] * (width - len(one))] for one in lists], device=device)

    attention = padded([[1] * len(one) for one in ids], 0)
    return {"input_ids": padded(ids, pad), "attention_mask": attention, "labels": padded(labels, _IGNORED)}


def _save(out: Path, base: Base, model: Any, source: bytes) -> Base:
    """Write the new base model and move it into place atomically. All files but the weights are copied from `base`."""
    making = out / f".making-{sha256(source).hexdigest()[:16]}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    model.save_pretrained(making)
    for file in base.path.iterdir():
        if file.is_file() and file.suffix != ".safetensors" and not file.name.startswith("."):
            shutil.copyfile(file, making / file.name)
    (making / SOURCE).write_bytes(source)
    place = out / folder_digest(making)
    if place.exists():
        shutil.rmtree(making)
    else:
        os.replace(making, place)  # noqa: PTH105 atomic
    return read_base(place)
