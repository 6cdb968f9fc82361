"""Start of every stage: base model, adapter and parent; and the progress lines that a stage emits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.weights_folder import Base

from .adapters import fresh, restore_adapter
from .bases import load_model
from .checkpoint import Checkpoint, load_tensors
from .devices import Device
from .errors import TrainingDiverged
from .request import Lora

if TYPE_CHECKING:
    from peft import PeftModel

Line = Mapping[str, object]
"""One JSON-ready progress line of the training: its `kind` and the fields of that kind."""

Emit = Callable[[Line], None]


@dataclass(frozen=True, slots=True)
class StageStart:
    """A base model, the adapter's shape, and the checkpoint to continue from, if any.

    `rows_per_pass` is how many rows, or pairs, of this process go through the model at once.
    """

    base: Base
    device: Device
    lora: Lora
    parent: Checkpoint | None
    seed: int
    rows_per_pass: int


def policy_model(start: StageStart) -> PeftModel:
    """The model to train: the base with a fresh adapter, or with the parent's adapter.

    TRL copies this adapter as the reference, so its reference is the initial weights, too.
    """
    import torch

    model = load_model(start.base, start.device.dtype)
    torch.manual_seed(start.seed)
    if start.parent is None:
        return fresh(model, start.lora)
    return restore_adapter(model, start.lora, load_tensors(start.parent), start.parent.path)


def step_line(step: int, loss: float, **measures: float | None) -> Line:
    """Progress line of one step. A measure that the algorithm does not have is None. Raises TrainingDiverged."""
    if not math.isfinite(loss):
        raise TrainingDiverged(step=step, actual=loss)
    known: dict[str, float | None] = {"kl": None, "clip_fraction": None, "ratio": None, "reward": None}
    return {"kind": "step", "step": step, "loss": loss, **known, **measures}
