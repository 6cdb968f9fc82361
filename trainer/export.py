"""Exports a checkpoint for model servers: a PEFT folder, a GGUF adapter, or a merged GGUF in F16 or Q8_0.

If GGUF cannot hold an architecture's adapter separately, export a merged model: the adapter is added into the base,
then converted, and quantised for Q8_0.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventlog.errors import BaseDiffers
from eventlog.events.training import Form
from eventlog.weights_folder import DESCRIPTION, MANIFEST, TENSORS, Base

from .adapters import restore_adapter
from .bases import load_model
from .checkpoint import Checkpoint, load_tensors
from .errors import OutTaken
from .gguf_file import Precision, encode_tensor, write_gguf_adapter, write_model
from .gguf_names import architecture_of, gguf_adapter_tensors, model_tensors, read_vocabulary, settings_of


def export(checkpoint: Checkpoint, base: Base, form: Form, out: Path) -> Path:
    """Export a checkpoint to `out`: a folder for peft, else a file.

    Raises OutTaken, BaseDiffers, NotConvertible, ExportMismatch.
    """
    if out.exists():
        raise OutTaken(path=out)
    if checkpoint.manifest.base != base.digest:
        raise BaseDiffers(path=base.path, actual=base.digest, expected=checkpoint.manifest.base)
    match form:
        case "peft":
            return _export_peft(checkpoint, out)
        case "gguf-adapter":
            return _export_adapter(checkpoint, base, out)
        case "gguf-f16":
            return _export_merged(checkpoint, base, "f16", out)
        case "gguf-q8_0":
            return _export_merged(checkpoint, base, "q8_0", out)


def _export_peft(checkpoint: Checkpoint, out: Path) -> Path:
    making = out.with_name(f".making-{out.name}")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    for name in (DESCRIPTION, TENSORS, MANIFEST):
        shutil.copyfile(checkpoint.path / name, making / name)
    os.replace(making, out)  # noqa: PTH105 atomic
    return out


def _export_adapter(checkpoint: Checkpoint, base: Base, out: Path) -> Path:
    config = _config(base)
    architecture = architecture_of(config, "adapter")
    state = {name: tensor.numpy() for name, tensor in load_tensors(checkpoint).items()}
    tensors = {name: encode_tensor(name, tensor, "f32") for name, tensor in gguf_adapter_tensors(config, state).items()}
    write_gguf_adapter(out, architecture, checkpoint.manifest.lora.alpha, tensors)
    return out


def _export_merged(checkpoint: Checkpoint, base: Base, precision: Precision, out: Path) -> Path:
    config = _config(base)
    architecture = architecture_of(config, "model")
    vocabulary = read_vocabulary(base.path, config)
    state = model_tensors(config, merge_adapter(checkpoint, base))
    tensors = {name: encode_tensor(name, tensor, precision) for name, tensor in state.items()}
    write_model(out, architecture, checkpoint.digest[:12], settings_of(config), vocabulary, tensors, precision)
    return out


def merge_adapter(checkpoint: Checkpoint, base: Base) -> dict[str, Any]:
    """Weights of the base with the adapter merged in, in float32, keyed by Transformers' names."""
    import torch

    tensors = load_tensors(checkpoint)
    model = restore_adapter(load_model(base, torch.float32), checkpoint.manifest.lora, tensors, checkpoint.path)
    whole = model.merge_and_unload()
    return {name: tensor.numpy() for name, tensor in whole.state_dict().items()}


def _config(base: Base) -> Mapping[str, Any]:
    config: Mapping[str, Any] = json.loads((base.path / "config.json").read_bytes())
    return config
