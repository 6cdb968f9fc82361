"""Makes a base folder for training from a GGUF file: config.json, safetensors in float32, tokenizer and chat template.

Quantised weights are dequantised, so the folder holds exactly the numbers that the file's quantised blocks stand for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventlog.weights_folder import Base, folder_digest, read_base

from .atomic_move import move_in
from .errors import GgufUnreadable, NotConvertible
from .gguf_names import ARCHITECTURES, ROTARY, model_state
from .gguf_tokenizer import Vocabulary, make_tokenizer
from .scratch_folder import scratch_folder

if TYPE_CHECKING:
    from gguf import GGUFReader

READABLE: Final = frozenset({"llama", "qwen2", "qwen3"})
"""GGUF architectures that can be read back. Those with experts or other attention are refused by name."""

_MODEL_TYPES: Final = {gguf: model for model, gguf in ARCHITECTURES.items()}
_EXPECTED: Final = f"one of {', '.join(sorted(READABLE))}"


def base_from_gguf(file: Path, out: Path) -> Base:
    """Make the base of a GGUF file in `out/<digest>`. An existing folder is kept.

    Raises GgufUnreadable, NotConvertible.
    """
    reader = open_gguf(file)
    config = gguf_config(reader)
    tokenizer = make_tokenizer(read_gguf_vocabulary(reader), config["max_position_embeddings"])
    with scratch_folder(out, "making-base") as making:
        _save_model(making, reader, config)
        tokenizer.save_pretrained(making)
        digest = folder_digest(making)
        making.chmod(0o755)
        move_in(making, out / digest)
    return read_base(out / digest, digest)


def open_gguf(file: Path) -> GGUFReader:
    """Open a GGUF file. Raises GgufUnreadable if it is missing, cut off or no GGUF."""
    import gguf

    try:
        return gguf.GGUFReader(file)
    except (OSError, ValueError, IndexError, KeyError, UnicodeDecodeError) as error:
        raise GgufUnreadable(path=file, actual=str(error).partition("\n")[0] or type(error).__name__) from error


def gguf_config(reader: GGUFReader) -> dict[str, Any]:
    """The config.json of the file's model. Raises NotConvertible."""
    architecture = str(metadata_value(reader, "general.architecture"))
    if architecture not in READABLE:
        actual = "the architecture is not supported"
        raise NotConvertible(what="model", architecture=architecture, actual=actual, expected=_EXPECTED)
    scaling = metadata_value(reader, f"{architecture}.rope.scaling.type", "none")
    if scaling != "none" or any(tensor.name == ROTARY for tensor in reader.tensors):
        raise NotConvertible(
            what="model",
            architecture=architecture,
            actual=f"its rotary positions are scaled ({scaling if scaling != 'none' else ROTARY})",
            expected="default ones, or the base folder from which the file was made",
        )
    heads = int(metadata_value(reader, f"{architecture}.attention.head_count"))
    hidden = int(metadata_value(reader, f"{architecture}.embedding_length"))
    names = {tensor.name for tensor in reader.tensors}
    found = {
        "model_type": _MODEL_TYPES[architecture],
        "hidden_size": hidden,
        "intermediate_size": int(metadata_value(reader, f"{architecture}.feed_forward_length")),
        "num_hidden_layers": int(metadata_value(reader, f"{architecture}.block_count")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(metadata_value(reader, f"{architecture}.attention.head_count_kv", heads)),
        "max_position_embeddings": int(metadata_value(reader, f"{architecture}.context_length")),
        "rms_norm_eps": _shortest(metadata_value(reader, f"{architecture}.attention.layer_norm_rms_epsilon")),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": _shortest(metadata_value(reader, f"{architecture}.rope.freq_base", 10000.0)),
        },
        "vocab_size": len(metadata_value(reader, "tokenizer.ggml.tokens")),
        "tie_word_embeddings": "output.weight" not in names,
        "bos_token_id": metadata_value(reader, "tokenizer.ggml.bos_token_id", None),
        "eos_token_id": metadata_value(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": metadata_value(reader, "tokenizer.ggml.padding_token_id", None),
        "attention_dropout": 0.0,
    }
    width = metadata_value(reader, f"{architecture}.attention.key_length", None)
    return found | ({"head_dim": int(width)} if width is not None and architecture != "qwen2" else {})


def read_gguf_vocabulary(reader: GGUFReader) -> Vocabulary:
    """The tokenizer of the file. Raises NotConvertible if it is not byte-level BPE or has no chat template."""
    import gguf

    kind = metadata_value(reader, "tokenizer.ggml.model")
    template = metadata_value(reader, "tokenizer.chat_template", None)
    architecture = str(metadata_value(reader, "general.architecture"))
    for actual, expected, is_wrong in (
        (f"its kind is {kind}", "gpt2, which is byte-level BPE", kind != "gpt2"),
        ("it has no chat template", "a model that was taught to chat", template is None),
    ):
        if is_wrong:
            raise NotConvertible(what="tokenizer", architecture=architecture, actual=actual, expected=expected)
    kinds = list(metadata_value(reader, "tokenizer.ggml.token_type"))

    def of(kind: Any) -> frozenset[int]:
        return frozenset(place for place, each in enumerate(kinds) if each == int(kind))

    return Vocabulary(
        cut=str(metadata_value(reader, "tokenizer.ggml.pre", "default")),
        tokens=tuple(metadata_value(reader, "tokenizer.ggml.tokens")),
        special=of(gguf.TokenType.CONTROL),
        defined=of(gguf.TokenType.USER_DEFINED),
        unused=of(gguf.TokenType.UNUSED),
        merges=tuple(metadata_value(reader, "tokenizer.ggml.merges")),
        begin=metadata_value(reader, "tokenizer.ggml.bos_token_id", None),
        end=int(metadata_value(reader, "tokenizer.ggml.eos_token_id")),
        pad=metadata_value(reader, "tokenizer.ggml.padding_token_id", None),
        template=str(template),
    )


_NEEDED: Final = object()


def metadata_value(reader: GGUFReader, key: str, default: Any = _NEEDED) -> Any:
    """The value of a metadata key. Raises NotConvertible if it is missing and there is no default."""
    field = reader.get_field(key)
    if field is not None:
        return field.contents()
    if default is _NEEDED:
        raise NotConvertible(what="metadata", architecture="GGUF", actual=f"it has no {key}", expected="that key")
    return default


def _shortest(number: float) -> float:
    """The shortest decimal that is this float32: GGUF stores 1e-5 as the float32 next to it."""
    import numpy as np

    return float(str(np.float32(number)))


def _save_model(folder: Path, reader: GGUFReader, config: Mapping[str, Any]) -> None:
    import gguf
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    described = AutoConfig.for_model(**config)
    with torch.device("meta"):
        shapes = AutoModelForCausalLM.from_config(described, dtype=torch.float32).state_dict()
    held = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    wanted = {name: tuple(tensor.shape) for name, tensor in shapes.items()}
    state = {name: torch.from_numpy(rows.copy()) for name, rows in model_state(config, wanted, held).items()}
    model = AutoModelForCausalLM.from_config(described, dtype=torch.float32)
    missing, unexpected = model.load_state_dict(state, strict=False)
    model.tie_weights()
    if unexpected or set(missing) - {"lm_head.weight"}:
        actual = f"{sorted([*missing, *unexpected])[0]} does not fit"
        raise NotConvertible(what="model", architecture=config["model_type"], actual=actual, expected="all its weights")
    model.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_bytes())
    written.pop("transformers_version", None)  # the digest of the folder is of the model, not of a library
    (folder / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
