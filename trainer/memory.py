"""How much memory a forward and backward pass needs, how much there is, and how many rows go through at once.

The estimate counts what torch keeps for the backward pass of a Transformers decoder in float32: for each token, layer
and hidden unit about `_UNITS` numbers, `_INNER` for each unit of the feed-forward, and the attention scores of each
head. Measured on SmolLM2-135M. Logits are computed in parts, so they count once and not by row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from eventlog.weights_folder import CONFIG, Base

from .batches import MOST_LOGITS
from .request import Config, DpoConfig, GrpoConfig, WarmupConfig

if TYPE_CHECKING:
    from .devices import Device

_UNITS: Final = 20
_INNER: Final = 8
_LOGITS: Final = 5
_SCORES: Final = 3
_TILE: Final = (4096, 32768)
"""Tokens and vocabulary of the largest tile of logits that TRL computes at once."""
_FLOAT: Final = 4
_SHARE: Final = 0.6
"""Share of the free memory that a pass may take: allocators keep freed blocks, and other processes want some."""

_CGROUPS: Final = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a model that its activations depend on."""

    layers: int
    hidden: int
    inner: int
    heads: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class PassPlan:
    """How many rows go through the model at once, and the bytes that this needs beside the weights.

    `available` is the free memory in bytes, None if it cannot be read.
    """

    rows: int
    needs: int
    available: int | None

    def line(self) -> dict[str, object]:
        """The progress line that says so before the first step."""
        said = {"rows_per_pass": self.rows, "needs_mib": self.needs >> 20}
        free = {} if self.available is None else {"available_mib": self.available >> 20}
        return {"kind": "memory", **said, **free}


def sizes_of(base: Base) -> Sizes:
    """The sizes of a base model; those that its configuration does not state count as 0."""
    config: Mapping[str, Any] = json.loads((base.path / CONFIG).read_bytes())

    def size(name: str) -> int:
        return int(config.get(name) or 0)

    inner = max(size("intermediate_size"), size("moe_intermediate_size") * size("num_experts_per_tok"))
    return Sizes(size("num_hidden_layers"), size("hidden_size"), inner, size("num_attention_heads"), base.vocabulary)


def bytes_per_row(sizes: Sizes, tokens: int, *, is_checkpointed: bool) -> int:
    """Bytes that a pass needs for one row of this many tokens; checkpointing keeps the activations of one layer."""
    of_layer = tokens * (_UNITS * sizes.hidden + _INNER * sizes.inner) + _SCORES * sizes.heads * tokens * tokens
    kept = of_layer + sizes.layers * tokens * sizes.hidden if is_checkpointed else sizes.layers * of_layer
    return _FLOAT * kept


def bytes_of_logits(sizes: Sizes, tokens: int, *, in_tiles: bool) -> int:
    """Bytes that the logits of this many tokens need at once: in TRL's tiles, or in parts of our own."""
    whole = tokens * sizes.vocabulary
    at_once = min(tokens, _TILE[0]) * min(sizes.vocabulary, _TILE[1]) if in_tiles else min(whole, MOST_LOGITS)
    return _FLOAT * _LOGITS * at_once


def plan_pass(
    per_row: int, step: int, asked: int | None, available: int | None, last: int = 0, reserve: int = 0
) -> PassPlan:
    """As many rows a pass as fit into the free memory beside the `reserve`, at most `asked` and at least one.

    Passes are of equal size: if a step does not go at once, their number of rows divides the `step`, and the `last`
    step of an epoch (0: none is smaller).
    """
    most = _fitting_rows(per_row, step if asked is None else min(step, asked), available, reserve)
    whole = gcd(step, last) if last and most < step else step
    rows = next(size for size in range(min(most, whole), 0, -1) if whole % size == 0)
    return PassPlan(rows, reserve + rows * per_row, available)


def plan_stage(config: Config | WarmupConfig, base: Base, device: Device, frame: pl.DataFrame) -> PassPlan:
    """The passes of a stage over these rows, by its longest row and the device's free memory."""
    count, tokens = len(frame), _longest(frame)
    sizes = sizes_of(base)
    per_row = bytes_per_row(sizes, tokens, is_checkpointed=config.checkpointing)
    free = free_bytes(device)
    available = free if free is None or device.is_cuda else free // device.processes
    if isinstance(config, GrpoConfig):
        most = min(config.rows_per_pass, count)
        reserve = bytes_of_logits(sizes, most * tokens, in_tiles=config.backend == "trl")
        rows = _fitting_rows(per_row, most, available, reserve)
        return PassPlan(rows, reserve + rows * per_row, available)
    whole = config.pairs_per_step if isinstance(config, DpoConfig) else config.rows_per_step
    step = min(whole, count)
    last = count % step if config.steps > count // step else 0
    per_item = 2 * per_row if isinstance(config, DpoConfig) else per_row
    asked = config.rows_per_pass
    asked = max(1, asked // 2) if asked is not None and isinstance(config, DpoConfig) else asked
    own = step // device.processes
    reserve = bytes_of_logits(
        sizes, own * (per_item // per_row) * tokens, in_tiles=not isinstance(config, WarmupConfig)
    )
    return plan_pass(per_item, own, asked, available, last // device.processes, reserve)


def _longest(frame: pl.DataFrame) -> int:
    """Width of a batch of any rows, in tokens: prompts are padded to the longest prompt, and what follows likewise."""
    names = [name for name in ("completion_ids", "chosen_ids", "rejected_ids") if name in frame.columns]
    widths = {name: max(map(int, frame[name].list.len())) for name in ("prompt_ids", *names)}
    return widths["prompt_ids"] + max(widths[name] for name in names)


def _fitting_rows(per_row: int, most: int, available: int | None, reserve: int) -> int:
    """As many rows as fit into the free memory beside the reserve: at least one, at most `most`."""
    return most if available is None else min(most, max(1, (int(available * _SHARE) - reserve) // max(1, per_row)))


def free_bytes(device: Device) -> int | None:
    """Free memory of a device in bytes: of the CPU what the kernel and the control group leave; None if not known."""
    if device.is_cuda:
        import torch

        free, _ = torch.cuda.mem_get_info(device.name)
        return int(free)
    found = (_available(), *(_remaining_bytes(limit, used) for limit, used in _CGROUPS))
    return min((each for each in found if each is not None), default=None)


def _available() -> int | None:
    """MemAvailable of Linux; elsewhere the free pages, if the system tells them."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return int(os.sysconf("SC_AVPHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        return None


def _remaining_bytes(limit: Path, used: Path) -> int | None:
    """Memory that a control group leaves; None if it sets no limit."""
    try:
        return max(0, int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):
        return None
