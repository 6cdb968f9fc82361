"""Our GRPO loop: one optimizer update per step, with gradients accumulated over several forward passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import polars as pl

from .batches import Policy, collate_rows, pieces
from .objective import Loss, Objective, Scored, StepTotals, grpo_loss
from .request import GrpoConfig
from .start import Emit, step_line

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import Tensor


def train_own(
    policy: Policy,
    frame: pl.DataFrame,
    batches: Sequence[Sequence[Sequence[int]]],
    reference: Mapping[int, Tensor],
    config: GrpoConfig,
    emit: Emit,
    rows_per_pass: int,
) -> PeftModel:
    """Train on batches of groups of rows. `reference` holds the reference log-probabilities of each row."""
    import torch

    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=float(config.learning_rate), weight_decay=0.0)
    policy.model.train()
    steps = (batch for batch in batches for _ in range(config.passes))
    for step, batch in enumerate(islice(steps, config.steps), start=1):
        rows = [row for group in batch for row in group]
        optimizer.zero_grad()
        line = step_line(step, **add_gradient(policy, frame, rows, reference, config, rows_per_pass))
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        emit(line)
    trained: PeftModel = policy.model
    return trained


def add_gradient(
    policy: Policy,
    frame: pl.DataFrame,
    rows: Sequence[int],
    reference: Mapping[int, Tensor],
    config: GrpoConfig,
    rows_per_pass: int,
) -> dict[str, float]:
    """Accumulate the gradient of one step's loss; return the loss and the means over the step's tokens and rows."""
    taken = frame[list(rows)]
    whole = StepTotals(runs=taken["run"].n_unique(), tokens=int(taken["mask"].list.sum().sum()))
    run_tokens = dict(taken.group_by("run").agg(pl.col("mask").list.sum().cast(pl.Int64).sum()).rows())
    objective = Objective(float(config.epsilon), float(config.beta), config.aggregation, config.max_tokens)
    value, losses = 0.0, []
    for piece in pieces(frame, rows, rows_per_pass):
        loss = _loss(policy, frame[list(piece)], [reference[row] for row in piece], run_tokens, objective, whole)
        loss.value.backward()
        value += float(loss.value.detach())
        losses.append(loss)
    return {
        "loss": value,
        "kl": sum(loss.kl for loss in losses) / whole.tokens,
        "clip_fraction": sum(loss.clipped for loss in losses) / whole.tokens,
        "ratio": sum(loss.ratio for loss in losses) / whole.tokens,
        "reward": float(taken.unique("run", maintain_order=True)["reward"].cast(pl.Float64).to_numpy().mean()) / 1e6,
    }


def _loss(
    policy: Policy,
    frame: pl.DataFrame,
    reference: Sequence[Tensor],
    run_tokens: Mapping[str, int],
    objective: Objective,
    whole: StepTotals,
) -> Loss:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    batch = collate_rows(frame, policy.pad, policy.device)
    held = pad_sequence(list(reference), batch_first=True).to(policy.device)
    theta = policy.logprobs(batch)
    shares = torch.tensor([float(run_tokens[run]) for run in frame["run"]], device=policy.device)
    return grpo_loss(Scored(theta, batch.logged, held, batch.mask, batch.advantage, shares), objective, whole)
