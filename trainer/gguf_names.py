"""Maps a model's tensors and settings to GGUF's names, for the supported architectures. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .errors import NotConvertible

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

ARCHITECTURES: Mapping[str, str] = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe"}
"""Transformers model type to GGUF architecture, for the architectures whose whole weights can be written."""

ADAPTERS = frozenset({"llama", "qwen2", "qwen3"})
"""Model types whose adapters can be written alone. Mixtures of experts are excluded: their experts are one tensor."""

_ROPES: Final = ("default", "llama3")
ROTARY: Final = "rope_freqs.weight"
"""GGUF's tensor of the divisors of the rotary frequencies."""


def architecture_of(config: Mapping[str, Any], what: str) -> str:
    """GGUF's name of the model's architecture. Raises NotConvertible."""
    known = ADAPTERS if what == "adapter" else ARCHITECTURES.keys()
    if config["model_type"] not in known:
        expected = f"one of {', '.join(sorted(known))}"
        raise NotConvertible(
            what=what, architecture=config["model_type"], actual="the architecture is not supported", expected=expected
        )
    rope = _rope(config).get("rope_type", "default")
    if rope not in _ROPES:
        raise NotConvertible(
            what=what,
            architecture=config["model_type"],
            actual=f"its rotary positions are {rope}",
            expected=" or ".join(_ROPES),
        )
    if config.get("use_sliding_window"):
        raise NotConvertible(
            what=what,
            architecture=config["model_type"],
            actual="its attention has sliding windows",
            expected="full attention in every layer",
        )
    if config.get("num_experts_per_tok") and not config.get("norm_topk_prob"):
        raise NotConvertible(
            what=what,
            architecture=config["model_type"],
            actual="the weights of its experts do not add up to 1",
            expected="norm_topk_prob",
        )
    return ARCHITECTURES[config["model_type"]]


def settings_of(config: Mapping[str, Any]) -> dict[str, int | float]:
    """Model hyperparameters under GGUF's keys, without the architecture prefix."""
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    found: dict[str, int | float] = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "vocab_size": config["vocab_size"],
        "attention.head_count": heads,
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": width,
        "attention.value_length": width,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.dimension_count": width,
        "rope.freq_base": float(_rope(config).get("rope_theta", 10000.0)),
    }
    if experts := _experts(config):
        found |= {
            "expert_count": experts,
            "expert_used_count": config["num_experts_per_tok"],
            "expert_feed_forward_length": config["moe_intermediate_size"],
        }
    return found


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rotary parameters of a configuration, under the names of Transformers 5, also of an older config.json."""
    told = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
    kind = told.get("rope_type", told.get("type", "default"))
    return {"rope_theta": config.get("rope_theta", 10000.0)} | told | {"rope_type": kind}


def rotary_factors(config: Mapping[str, Any]) -> Floats | None:
    """Divisors of the rotary frequencies for positions of the kind llama3, one each two dimensions; None for others.

    Long waves are slowed by `factor`, short ones are kept, and between them it is interpolated (the Llama 3.1 release).
    """
    import numpy as np

    rope = _rope(config)
    if rope["rope_type"] != "llama3":
        return None
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    trained, factor = float(rope["original_max_position_embeddings"]), float(rope["factor"])
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    waves = 2 * math.pi * float(rope["rope_theta"]) ** (np.arange(0, width, 2, dtype=np.float64) / width)
    smooth = ((trained / waves - low) / (high - low)).clip(0.0, 1.0)
    found: Floats = (1.0 / ((1.0 - smooth) / factor + smooth)).astype(np.float32)
    return found


def _experts(config: Mapping[str, Any]) -> int:
    return int(config.get("num_local_experts") or config.get("num_experts") or 0)


def model_tensors(config: Mapping[str, Any], state: Mapping[str, Floats]) -> dict[str, Floats]:
    """All weights of a model, keyed by GGUF's names. Raises NotConvertible."""
    names = GgufNames(config, "model")
    factors = rotary_factors(config)
    found: dict[str, Floats] = {} if factors is None else {ROTARY: factors}
    for name, tensor in state.items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        if name.endswith("experts.gate_up_proj"):
            half = tensor.shape[1] // 2
            layer = name.removesuffix("gate_up_proj")
            found[f"{names.of(f'{layer}gate_proj')}.weight"] = tensor[:, :half]
            found[f"{names.of(f'{layer}up_proj')}.weight"] = tensor[:, half:]
        elif name.endswith("experts.down_proj"):
            found[f"{names.of(name)}.weight"] = tensor
        else:
            module, _, kind = name.rpartition(".")
            found[f"{names.of(module)}.{kind}"] = _permute_rotary(config, module, tensor)
    return found


def gguf_adapter_tensors(config: Mapping[str, Any], state: Mapping[str, Floats]) -> dict[str, Floats]:
    """The tensors of an adapter, keyed by GGUF's names. Raises NotConvertible."""
    names = GgufNames(config, "adapter")
    found: dict[str, Floats] = {}
    for name, tensor in state.items():
        module, _, side = name.removeprefix("base_model.model.").removesuffix(".weight").rpartition(".lora_")
        rows = _permute_rotary(config, module, tensor) if side == "B" else tensor
        found[f"{names.of(module)}.weight.lora_{side.lower()}"] = rows
    return found


class GgufNames:
    """GGUF's module names for one architecture. Raises NotConvertible."""

    def __init__(self, config: Mapping[str, Any], what: str) -> None:
        import gguf

        ours = architecture_of(config, what)
        self._config, self._what = config, what
        kind = next(kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == ours)
        self._map = gguf.get_tensor_name_map(kind, config["num_hidden_layers"])

    def of(self, module: str) -> str:
        """GGUF's name of a module. Raises NotConvertible."""
        found = self._map.get_name(module)
        if found is None:
            raise NotConvertible(
                what=self._what,
                architecture=self._config["model_type"],
                actual=f"GGUF has no name for {module}",
                expected="only layers of that architecture",
            )
        return str(found)


def _permute_rotary(config: Mapping[str, Any], module: str, rows: Floats) -> Floats:
    """Reorder output rows for the rotary embedding of GGUF's graph: llama rotates neighbouring rows, not halves."""
    if config["model_type"] != "llama":
        return rows
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    count = heads.get(module.rpartition(".")[2])
    if count is None:
        return rows
    halves = rows.reshape(count, 2, rows.shape[0] // count // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def model_state(config: Mapping[str, Any], wanted: Mapping[str, tuple[int, ...]], held: Mapping[str, Floats]) -> Any:
    """Weights keyed by Transformers' names and shapes (`wanted`), from tensors keyed by GGUF's. Raises NotConvertible.

    The inverse of `model_tensors`, for architectures without experts.
    """
    names = GgufNames(config, "model")
    found: dict[str, Floats] = {}
    for name, shape in wanted.items():
        module, _, kind = name.rpartition(".")
        stored = f"{names.of(module)}.{kind}"
        if stored == "output.weight" and stored not in held:
            continue  # tied to the embeddings
        if stored not in held or tuple(held[stored].shape) != shape:
            actual = f"{stored} is {tuple(held[stored].shape)}" if stored in held else f"{stored} is missing"
            raise NotConvertible(what="model", architecture=config["model_type"], actual=actual, expected=f"{shape}")
        found[name] = _restore_rotary(config, module, held[stored])
    return found


def _restore_rotary(config: Mapping[str, Any], module: str, rows: Floats) -> Floats:
    """Undo `_permute_rotary`."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    count = heads.get(module.rpartition(".")[2])
    if config["model_type"] != "llama" or count is None:
        return rows
    pairs = rows.reshape(count, rows.shape[0] // count // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
