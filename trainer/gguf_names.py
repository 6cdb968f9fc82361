"""Maps a model's tensors and settings to GGUF's names, for the supported architectures. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventlog.weights_folder import TEMPLATE, TOKENIZER

from .errors import NotConvertible

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

ARCHITECTURES: Mapping[str, str] = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe"}
"""Transformers model type to GGUF architecture, for the architectures whose whole weights can be written."""

ADAPTERS = frozenset({"llama", "qwen2", "qwen3"})
"""Model types whose adapters can be written alone. Mixtures of experts are excluded: their experts are one tensor."""

_FIRST = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_LAST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

CUTS: Mapping[str, str] = {
    "qwen2": rf"{_FIRST}|\p{{N}}|{_LAST}",
    "llama-bpe": rf"{_FIRST}|\p{{N}}{{1,3}}|{_LAST}",
}
"""Supported pre-tokenizer regular expressions, keyed by GGUF's names."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A byte-level BPE tokenizer in the form GGUF needs. `special` are the ids of control tokens."""

    cut: str
    tokens: tuple[str, ...]
    special: frozenset[int]
    unused: frozenset[int]
    merges: tuple[str, ...]
    end: int
    pad: int | None
    template: str


def architecture_of(config: Mapping[str, Any], what: str) -> str:
    """GGUF's name of the model's architecture. Raises NotConvertible."""
    known = ADAPTERS if what == "adapter" else ARCHITECTURES.keys()
    if config["model_type"] not in known:
        expected = f"one of {', '.join(sorted(known))}"
        raise NotConvertible(
            what=what, architecture=config["model_type"], actual="the architecture is not supported", expected=expected
        )
    rope = (config.get("rope_parameters") or {}).get("rope_type", "default")
    if rope != "default":
        raise NotConvertible(
            what=what,
            architecture=config["model_type"],
            actual=f"its rotary positions are {rope}",
            expected="default ones",
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
    rope = config.get("rope_parameters") or config
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
        "rope.freq_base": float(rope.get("rope_theta", 10000.0)),
    }
    if experts := _experts(config):
        found |= {
            "expert_count": experts,
            "expert_used_count": config["num_experts_per_tok"],
            "expert_feed_forward_length": config["moe_intermediate_size"],
        }
    return found


def _experts(config: Mapping[str, Any]) -> int:
    return int(config.get("num_local_experts") or config.get("num_experts") or 0)


def model_tensors(config: Mapping[str, Any], state: Mapping[str, Floats]) -> dict[str, Floats]:
    """All weights of a model, keyed by GGUF's names. Raises NotConvertible."""
    names = _Names(config, "model")
    found: dict[str, Floats] = {}
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
    names = _Names(config, "adapter")
    found: dict[str, Floats] = {}
    for name, tensor in state.items():
        module, _, side = name.removeprefix("base_model.model.").removesuffix(".weight").rpartition(".lora_")
        rows = _permute_rotary(config, module, tensor) if side == "B" else tensor
        found[f"{names.of(module)}.weight.lora_{side.lower()}"] = rows
    return found


class _Names:
    """GGUF's module names for one architecture."""

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


def read_vocabulary(folder: Path, config: Mapping[str, Any]) -> Vocabulary:
    """Read the tokenizer of a base model. Raises NotConvertible."""
    told = json.loads((folder / TOKENIZER).read_bytes())
    names = json.loads((folder / "tokenizer_config.json").read_bytes())
    ids = dict(told["model"]["vocab"]) | {one["content"]: one["id"] for one in told["added_tokens"]}
    tokens = [f"[PAD{place}]" for place in range(config["vocab_size"])]
    for token, place in ids.items():
        tokens[place] = token
    template = (folder / TEMPLATE).read_text()
    return Vocabulary(
        cut=_cut(told, config),
        tokens=tuple(tokens),
        special=frozenset(one["id"] for one in told["added_tokens"] if one["special"]),
        unused=frozenset(range(config["vocab_size"])) - frozenset(ids.values()),
        merges=tuple(merge if isinstance(merge, str) else " ".join(merge) for merge in told["model"]["merges"]),
        end=ids[names["eos_token"]],
        pad=ids.get(names.get("pad_token") or ""),
        # Only Transformers supports these tags.
        template=template.replace("{% generation %}", "").replace("{% endgeneration %}", ""),
    )


def _cut(told: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    cutting = told.get("pre_tokenizer") or {}
    parts = cutting.get("pretokenizers", [cutting])
    found = [part["pattern"].get("Regex") for part in parts if part.get("type") == "Split"]
    known = [name for name, expression in CUTS.items() if found == [expression]]
    if told["model"]["type"] != "BPE" or not known:
        raise NotConvertible(
            what="tokenizer",
            architecture=config["model_type"],
            actual=f"its pre-tokenizer is {found}",
            expected="byte-level BPE with the pre-tokenizer of Qwen2 or Llama 3",
        )
    return known[0]
