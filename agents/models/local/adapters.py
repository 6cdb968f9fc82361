"""Checkpoints in memory, to be attached to their base model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlog.weights_folder import DESCRIPTION, TENSORS, Base, read_checkpoint

from ..errors import AdapterUnfit


@dataclass(frozen=True, slots=True)
class Adapter:
    """A checkpoint in memory: its digest, the bytes of its tensors (safetensors), and PEFT's description of them."""

    digest: str
    path: Path
    tensors: bytes
    description: Mapping[str, Any]


def read_adapter(path: Path, expected: str, base: Base) -> Adapter:
    """Read the checkpoint with this digest for this base. The bytes whose digest was checked are the ones returned.

    Raises AdapterUnfit, CheckpointMissing, CheckpointUnreadable, CheckpointAltered.
    """
    folder = read_checkpoint(path, expected)
    if folder.base != base.digest:
        raise AdapterUnfit(
            path=path, actual=f"it was trained on the base {folder.base}", expected=f"one trained on {base.digest}"
        )
    held = {name: folder.read(name) for name in sorted({*folder.files, DESCRIPTION, TENSORS})}
    return Adapter(expected, path, held[TENSORS], json.loads(held[DESCRIPTION]))
