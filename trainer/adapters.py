"""LoRA adapters on a base model: a fresh adapter, or one that continues from its parent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventlog.chain import canonical

from .errors import AdapterMismatch, LoraDiffers
from .request import Lora

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel
    from torch import Tensor
    from transformers import PreTrainedModel

ADAPTER = "default"


def shape(asked: Lora | None, parent: Lora | None) -> Lora:
    """The adapter's shape: the requested one, else the parent's, else the default. Raises LoraDiffers."""
    if parent is not None and asked not in {None, parent}:
        raise LoraDiffers(actual=asked, expected=parent)
    return parent or asked or Lora()


def lora_config(lora: Lora) -> LoraConfig:
    """PEFT's configuration of an adapter, without dropout."""
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,
        target_modules=lora.targets if isinstance(lora.targets, str) else list(lora.targets),
        task_type="CAUSAL_LM",
    )


def fresh(model: PreTrainedModel, lora: Lora) -> PeftModel:
    """A new adapter with zero effect, initialised from torch's global random state. Raises AdapterMismatch."""
    from peft import get_peft_model

    try:
        return get_peft_model(model, lora_config(lora))
    except ValueError as error:
        expected = "targets that name linear layers of the model"
        raise AdapterMismatch(path="the request", actual=str(error).splitlines()[0], expected=expected) from error


def restore_adapter(model: PreTrainedModel, lora: Lora, tensors: dict[str, Tensor], path: Path) -> PeftModel:
    """The model with a saved adapter, ready for training. Raises AdapterMismatch."""
    from peft import set_peft_model_state_dict

    wrapped = fresh(model, lora)
    held = adapter_tensors(wrapped)
    theirs = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    ours = {name: tuple(tensor.shape) for name, tensor in held.items()}
    if theirs != ours:
        differing = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
        name = differing[0]
        raise AdapterMismatch(
            path=path, actual=f"{name} is {theirs.get(name, 'missing')}", expected=ours.get(name, "no such tensor")
        )
    set_peft_model_state_dict(wrapped, tensors, adapter_name=ADAPTER)
    return wrapped


def adapter_tensors(model: Any) -> dict[str, Tensor]:
    """The adapter's tensors in float32 on the CPU, keyed by PEFT's names, in sorted order."""
    import torch
    from peft import get_peft_model_state_dict

    state = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
    return {name: state[name].detach().to("cpu", torch.float32).contiguous() for name in sorted(state)}


def targets(model: Any) -> tuple[str, ...]:
    """Full names of the layers and fused parameters that carry the adapter, in order."""
    config = model.peft_config[ADAPTER]
    return tuple(sorted({*config.target_modules, *(config.target_parameters or ())}))


def description_bytes(model: Any, base: str) -> bytes:
    """Deterministic adapter_config.json for PEFT: the one PEFT writes differs between processes and contains a path."""
    config = model.peft_config[ADAPTER]
    return canonical(
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base,
            "bias": "none",
            "inference_mode": True,
            "r": config.r,
            "lora_alpha": config.lora_alpha,
            "lora_dropout": 0,
            "target_modules": sorted(config.target_modules),
            "target_parameters": sorted(config.target_parameters or ()) or None,
            "rank_pattern": dict(config.rank_pattern),
            "alpha_pattern": dict(config.alpha_pattern),
        }
    )
