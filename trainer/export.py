"""Exports weights for model servers: a PEFT folder, a GGUF adapter, or a whole GGUF in F32, F16 or Q8_0.

If GGUF cannot hold an architecture's adapter separately, export a merged model: the adapter is added into the base,
then converted, and quantised for Q8_0.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from eventlog.errors import BaseDiffers
from eventlog.events.training import Form
from eventlog.weights_folder import DESCRIPTION, MANIFEST, TENSORS, Base

from .adapters import restore_adapter
from .bases import load_model
from .checkpoint import Checkpoint, load_tensors
from .errors import NotConvertible, OutTaken
from .gguf_file import Precision, encode_tensor, write_gguf_adapter, write_model
from .gguf_names import architecture_of, gguf_adapter_tensors, model_tensors, settings_of
from .gguf_tokenizer import read_vocabulary

_PRECISIONS: Final[Mapping[Form, Precision]] = {"gguf-f32": "f32", "gguf-f16": "f16", "gguf-q8_0": "q8_0"}


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
        case "gguf-f32" | "gguf-f16" | "gguf-q8_0":
            _write_whole(base, merge_adapter(checkpoint, base), checkpoint.digest, _PRECISIONS[form], out)
            return out


def export_base(base: Base, form: Form, out: Path) -> Path:
    """Export a base model as one GGUF file. Raises OutTaken, NotConvertible, ExportMismatch, BaseMissing."""
    import torch

    if out.exists():
        raise OutTaken(path=out)
    if form not in _PRECISIONS:
        actual, expected = f"{form} is for adapters", f"one of {', '.join(_PRECISIONS)}"
        raise NotConvertible(what="base", architecture=base.architecture, actual=actual, expected=expected)
    architecture_of(_config(base), "model")  # before the weights are read
    state = {name: tensor.numpy() for name, tensor in load_model(base, torch.float32).state_dict().items()}
    _write_whole(base, state, base.digest, _PRECISIONS[form], out)
    return out


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


def _write_whole(base: Base, state: Mapping[str, Any], digest: str, precision: Precision, out: Path) -> None:
    """Write the weights of a whole model (`state`, keyed by Transformers' names) with the base's tokenizer."""
    config = _config(base)
    architecture = architecture_of(config, "model")
    vocabulary = read_vocabulary(base.path, config)
    named = model_tensors(config, state)
    tensors = {name: encode_tensor(name, tensor, precision) for name, tensor in named.items()}
    write_model(out, architecture, digest[:12], settings_of(config), vocabulary, tensors, precision)


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
