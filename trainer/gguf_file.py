"""Writes GGUF files and verifies them by reading them back before they are moved into place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .errors import ExportMismatch
from .gguf_tokenizer import Vocabulary

if TYPE_CHECKING:
    from gguf import GGUFWriter

Precision = Literal["f32", "f16", "q8_0"]

_BLOCK = 32
_ROUTER = "ffn_gate_inp"


@dataclass(frozen=True, slots=True)
class EncodedTensor:
    """A tensor as stored in the file: bytes in the named GGUF type."""

    type: str
    data: Any


def encode_tensor(name: str, tensor: Any, precision: Precision) -> EncodedTensor:
    """Encode a tensor. Vectors and routers stay float32; rows whose length is no multiple of 32 are not quantised."""
    import gguf
    import numpy as np

    wanted = precision.upper()
    if tensor.ndim == 1 or _ROUTER in name:
        wanted = "F32"
    elif wanted == "Q8_0" and tensor.shape[-1] % _BLOCK:
        wanted = "F16"
    whole = np.ascontiguousarray(tensor, dtype=np.float32)
    return EncodedTensor(wanted, gguf.quants.quantize(whole, gguf.GGMLQuantizationType[wanted]))


def write_model(
    path: Path,
    architecture: str,
    name: str,
    settings: Mapping[str, int | float],
    vocabulary: Vocabulary,
    tensors: Mapping[str, EncodedTensor],
    precision: Precision,
) -> None:
    """Write a whole model. Raises ExportMismatch."""
    import gguf

    file_type = {"f32": "ALL_F32", "f16": "MOSTLY_F16", "q8_0": "MOSTLY_Q8_0"}[precision]

    def describe(writer: GGUFWriter) -> None:
        writer.add_type("model")
        writer.add_name(name)
        writer.add_file_type(gguf.LlamaFileType[file_type])
        for key, value in settings.items():
            _number(writer, f"{architecture}.{key}", value)
        if precision == "q8_0":
            writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        _describe_vocabulary(writer, vocabulary)

    _write(path, architecture, describe, tensors)


def write_gguf_adapter(path: Path, architecture: str, alpha: int, tensors: Mapping[str, EncodedTensor]) -> None:
    """Write an adapter alone; servers scale it by alpha / rank. Raises ExportMismatch."""

    def describe(writer: GGUFWriter) -> None:
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", float(alpha))

    _write(path, architecture, describe, tensors)


def _describe_vocabulary(writer: GGUFWriter, vocabulary: Vocabulary) -> None:
    import gguf

    kinds = [gguf.TokenType.NORMAL] * len(vocabulary.tokens)
    marked = (
        (vocabulary.unused, gguf.TokenType.UNUSED),
        (vocabulary.special, gguf.TokenType.CONTROL),
        (vocabulary.defined, gguf.TokenType.USER_DEFINED),
    )
    for places, kind in marked:
        for place in places:
            kinds[place] = kind
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(vocabulary.cut)
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types(kinds)
    writer.add_token_merges(list(vocabulary.merges))
    if vocabulary.begin is not None:
        writer.add_bos_token_id(vocabulary.begin)
    writer.add_eos_token_id(vocabulary.end)
    if vocabulary.pad is not None:
        writer.add_pad_token_id(vocabulary.pad)
    writer.add_add_bos_token(value=False)
    writer.add_chat_template(vocabulary.template)


def _number(writer: GGUFWriter, key: str, value: float) -> None:
    if isinstance(value, int):
        writer.add_uint32(key, value)
    else:
        writer.add_float32(key, value)


def _write(path: Path, architecture: str, describe: Any, tensors: Mapping[str, EncodedTensor]) -> None:
    """Write to a temporary file, verify it, then move it into place atomically."""
    import gguf

    path.parent.mkdir(parents=True, exist_ok=True)
    making = path.with_name(f".making-{path.name}")
    writer = gguf.GGUFWriter(making, architecture)
    describe(writer)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor.data, raw_dtype=gguf.GGMLQuantizationType[tensor.type])
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        check_file(making, tensors)
        os.replace(making, path)  # noqa: PTH105 atomic
    finally:
        making.unlink(missing_ok=True)


def check_file(path: Path, tensors: Mapping[str, EncodedTensor]) -> None:
    """Check that the file holds exactly these tensors, byte for byte. Raises ExportMismatch."""
    import gguf
    import numpy as np

    held = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    for name in sorted(held.keys() | tensors.keys()):
        if name not in held or name not in tensors:
            actual, expected = (
                ("is missing", "it in the file") if name in tensors else ("was never written", "no such tensor")
            )
            raise ExportMismatch(path=path, tensor=name, actual=actual, expected=expected)
        wanted, found = tensors[name], held[name]
        if found.tensor_type.name != wanted.type:
            raise ExportMismatch(path=path, tensor=name, actual=f"is {found.tensor_type.name}", expected=wanted.type)
        same = np.asarray(found.data).tobytes() == np.ascontiguousarray(wanted.data).tobytes()
        if not same:
            raise ExportMismatch(path=path, tensor=name, actual="has different bytes", expected="the written bytes")
