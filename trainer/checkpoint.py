"""A checkpoint: a folder with an adapter and a manifest of its inputs.

The digest of a checkpoint is the SHA-256 of its canonical manifest, which contains the digests of the tensors and of
PEFT's adapter configuration. So the digest covers the weights and all inputs of the training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from eventlog.chain import canonical
from eventlog.errors import CheckpointUnreadable
from eventlog.events.event import Count, Digest, FrozenModel
from eventlog.weights_folder import DESCRIPTION, MANIFEST, TENSORS, file_digest, read_checkpoint

from .request import Config, Lora

if TYPE_CHECKING:
    from torch import Tensor


class CheckpointManifest(FrozenModel):
    """Identity and inputs of a checkpoint, independent of file locations and time.

    `upto` is the log position of the dataset, `rows` the digest of the training rows, `targets` the layers that carry
    the adapter. `runtime` lists everything else that the bytes depend on, such as device and library versions.
    """

    format: Literal[1] = 1
    base: Digest
    parent: Digest | None
    dataset: Digest
    upto: Count
    rows: Digest
    tokenizer: Digest
    chat_template: Digest
    lora: Lora
    targets: tuple[str, ...]
    config: Config
    runtime: dict[str, str]
    files: dict[str, Digest]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on disk, verified against its manifest."""

    path: Path
    digest: str
    manifest: CheckpointManifest


def manifest_bytes(manifest: CheckpointManifest) -> bytes:
    """Canonical bytes of a manifest."""
    return canonical(manifest.model_dump(mode="json"))


def write_adapter(folder: Path, tensors: Mapping[str, Tensor], description: bytes) -> dict[str, str]:
    """Write tensors and description into a folder; return the digest of each file."""
    from safetensors.torch import save

    (folder / TENSORS).write_bytes(save(dict(tensors), metadata={"format": "pt"}))
    (folder / DESCRIPTION).write_bytes(description)
    return {name: file_digest(folder / name) for name in (DESCRIPTION, TENSORS)}


def write_manifest(folder: Path, manifest: CheckpointManifest) -> str:
    """Write the manifest, which makes the folder a checkpoint, and return the checkpoint's digest."""
    content = manifest_bytes(manifest)
    (folder / MANIFEST).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def load_checkpoint(path: Path, expected: str | None = None) -> Checkpoint:
    """Read a checkpoint and hash its files. Raises CheckpointMissing, CheckpointUnreadable, CheckpointAltered."""
    folder = read_checkpoint(path, expected)
    try:
        manifest = CheckpointManifest.model_validate_json(folder.manifest)
    except ValidationError as error:
        raise CheckpointUnreadable(path=path, actual=error.errors()[0]["msg"]) from error
    folder.check()
    return Checkpoint(path, folder.digest, manifest)


def load_tensors(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Load the adapter's tensors, keyed by PEFT's names."""
    from safetensors.torch import load_file

    return dict(load_file(checkpoint.path / TENSORS))
