"""GRPO from the log: the importance ratio uses the log-probabilities that were logged when the runs were sampled.

There are two backends. Our loop (`grpo_loop.py`) accepts groups of any sizes. TRL's (`grpo_trl.py`) needs groups of
equal size and can run in several processes. Both train on the same batches in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count, islice
from typing import TYPE_CHECKING

import polars as pl

from .bases import load_tokenizer
from .batches import Policy
from .errors import NoSignal, RatiosOutside, StalePolicy
from .grpo_loop import train_own
from .grpo_trl import train_trl
from .request import GrpoConfig
from .rows import TrainingRows
from .shares import refuse_uneven
from .start import Emit, StageStart, policy_model

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Group:
    """Row numbers of the siblings of one instance."""

    name: str
    rows: tuple[int, ...]


def train_grpo(start: StageStart, rows: TrainingRows, config: GrpoConfig, emit: Emit) -> PeftModel:
    """Train on the groups with a nonzero advantage. Raises NoSignal, StepUneven, StalePolicy, GroupsUneven."""
    groups, flat = signal_of(rows)
    emit({"kind": "groups", "groups": len(groups), "flat_groups_dropped": flat})
    refuse_uneven(
        min(config.groups_per_step, len(groups)), "groups in a step", "groups_per_step", start.device.processes
    )
    batches = [[group.rows for group in batch] for batch in schedule(groups, config)]
    visited = sorted({row for batch in batches for group in batch for row in group})
    policy = start_policy(start, rows)
    at_start = policy.score(rows.frame, visited, start.rows_per_pass)
    emit({"kind": "staleness", **check_staleness(rows.frame, at_start, config)})
    reference = at_start
    if config.reference == "base" and start.parent is not None:
        with policy.model.disable_adapter():
            reference = policy.score(rows.frame, visited, start.rows_per_pass)
    if config.backend == "trl":
        return train_trl(policy, start, rows, batches, reference, config, emit)
    if config.checkpointing:
        policy.model.enable_input_require_grads()
        policy.model.gradient_checkpointing_enable({"use_reentrant": False})
        policy = replace(policy, shares_prompts=False)  # what is computed twice keeps no state to continue from
    return train_own(policy, rows.frame, batches, reference, config, emit, start.rows_per_pass)


def start_policy(start: StageStart, rows: TrainingRows) -> Policy:
    """The initial policy, on its device."""
    model = policy_model(start)
    pad = load_tokenizer(start.base).pad_token_id
    return Policy(model.to(start.device.name), int(pad or 0), start.device.name, float(rows.frame["temperature"][0]))


def signal_of(rows: TrainingRows) -> tuple[tuple[Group, ...], int]:
    """Groups with a nonzero advantage, ordered by name, and the number of other groups. Raises NoSignal."""
    numbered = rows.frame.with_row_index("row").group_by("group").agg("row", (pl.col("advantage") != 0).any())
    found = [Group(name, tuple(taken)) for name, taken, has_signal in numbered.sort("group").rows() if has_signal]
    if not found:
        raise NoSignal(path=rows.path, actual=len(numbered))
    return tuple(found), len(numbered) - len(found)


def schedule(groups: Sequence[Group], config: GrpoConfig) -> tuple[tuple[Group, ...], ...]:
    """The batches of the whole training. Each epoch uses every group at most once, in an order drawn from the seed."""
    size = min(config.groups_per_step, len(groups))
    batches = -(-config.steps // config.passes)
    return tuple(islice(_rounds(groups, size, config.seed), batches))


def _rounds(groups: Sequence[Group], size: int, seed: int) -> Iterator[tuple[Group, ...]]:
    for turn in count():
        mixed = sorted(groups, key=lambda group: sha256(f"{seed}:{turn}:{group.name}".encode()).digest())
        for first in range(0, len(mixed) - size + 1, size):
            yield tuple(mixed[first : first + size])


def check_staleness(frame: pl.DataFrame, scored: Mapping[int, Tensor], config: GrpoConfig) -> dict[str, float | int]:
    """Mean and maximum difference between logged and initial log-probabilities, and the share of clipped ratios.

    Raises StalePolicy, RatiosOutside.
    """
    import torch

    apart = []
    for row, values in scored.items():
        mask = torch.tensor(frame["mask"][row].to_list(), dtype=torch.bool)
        logged = torch.tensor(frame["logprobs"][row].to_list(), dtype=torch.float64)
        apart.append((values.double() - logged)[mask])
    away = torch.cat(apart)
    distances = away.abs()
    mean, epsilon = float(distances.mean()), float(config.epsilon)
    outside = float(((away.exp() - 1).abs() > epsilon).double().mean())
    if not mean <= float(config.staleness):
        raise StalePolicy(actual=f"{mean:.4g}", tokens=len(distances), expected=config.staleness)
    if not outside <= float(config.outside):
        raise RatiosOutside(
            actual=f"{outside:.4g}",
            tokens=len(distances),
            least=f"{1 - epsilon:g}",
            most=f"{1 + epsilon:g}",
            expected=config.outside,
        )
    return {"mean": mean, "largest": float(distances.max()), "tokens": len(distances), "outside": outside}
