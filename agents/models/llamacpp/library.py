"""llama.cpp's C interface, from the compiled library of an installed package: xllamacpp, or else llama-cpp-python.

xllamacpp ships compiled wheels; its module exports the C interface, which is loaded here without its Python part.
llama-cpp-python is compiled where it is installed; its own structures describe its version. Only functions that both
versions have are declared. Pointers are integers here: a failed call returns None or 0.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int8, c_int32, c_size_t, c_uint8, c_uint32, c_void_p
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ..errors import LibrariesMissing, LibraryUnfit

XLLAMACPP: Final = "xllamacpp"
LLAMA_CPP_PYTHON: Final = "llama_cpp"
TYPES: Final = {"f32": 0, "f16": 1}
"""ggml's numbers of the types that the attention cache may have."""

_CUT: Final = 512
"""n_ctx and n_ubatch that every version of llama.cpp starts from."""


class ContextParams(Structure):
    """llama_context_params of the llama.cpp in xllamacpp 2026.10 (build 11549), with room for later fields at its end.

    The callee reads only the fields that it has, so a longer structure is passed safely.
    """

    _fields_ = (
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32),
        ("n_outputs_max", c_uint32),
        ("_unknown", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("ctx_type", c_int32),
        ("rope_scaling_type", c_int32),
        ("pooling_type", c_int32),
        ("attention_type", c_int32),
        ("flash_attn_type", c_int32),
        ("_rope", c_float * 8),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int32),
        ("type_v", c_int32),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        ("_later", c_void_p),
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("_rest", c_uint8 * 122),
    )


class ModelParams(Structure):
    """llama_model_params as opaque bytes: its defaults are what is wanted."""

    _fields_ = (("_bytes", c_uint8 * 256),)


class LlamaBatch(Structure):
    """llama_batch: tokens with their positions and sequences, and whether logits are wanted of each."""

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", POINTER(c_float)),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    )


_LOG: Final = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)
_QUIET: Final = _LOG(lambda _level, _text, _data: None)

_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "llama_backend_init": (None, ()),
    "llama_log_set": (None, (_LOG, c_void_p)),
    "llama_model_free": (None, (c_void_p,)),
    "llama_model_get_vocab": (c_void_p, (c_void_p,)),
    "llama_vocab_n_tokens": (c_int32, (c_void_p,)),
    "llama_free": (None, (c_void_p,)),
    "llama_n_ctx": (c_uint32, (c_void_p,)),
    "llama_n_seq_max": (c_uint32, (c_void_p,)),
    "llama_n_threads": (c_int32, (c_void_p,)),
    "llama_get_memory": (c_void_p, (c_void_p,)),
    "llama_memory_seq_rm": (c_bool, (c_void_p, c_int32, c_int32, c_int32)),
    "llama_memory_seq_cp": (None, (c_void_p, c_int32, c_int32, c_int32, c_int32)),
    "llama_adapter_lora_init": (c_void_p, (c_void_p, c_char_p)),
    "llama_adapter_lora_free": (None, (c_void_p,)),
    "llama_set_adapters_lora": (c_int32, (c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_float))),
    "llama_batch_init": (LlamaBatch, (c_int32, c_int32, c_int32)),
    "llama_batch_free": (None, (LlamaBatch,)),
    "llama_decode": (c_int32, (c_void_p, LlamaBatch)),
    "llama_get_logits_ith": (POINTER(c_float), (c_void_p, c_int32)),
}


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded llama.cpp: its functions, and the structures of its parameters."""

    package: str
    c: Any
    context_params: type[Structure]
    model_params: type[Structure]


@cache
def load_library(package: str | None = None) -> Library:
    """Load llama.cpp from a package, or from the first of the two that is installed. Once in a process.

    Raises LibrariesMissing, and LibraryUnfit if the library has another interface.
    """
    wanted = (XLLAMACPP, LLAMA_CPP_PYTHON) if package is None else (package,)
    found = next((name for name in wanted if find_spec(name) is not None), None)
    if found is None:
        actual = f"none of {', '.join(wanted)} is installed"
        raise LibrariesMissing(path="in llama.cpp", actual=actual, extra="llamacpp")
    path = _library_file(found)
    try:
        c = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(c, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise LibraryUnfit(path=path, actual=str(error)) from error
    context, model = _structures(found)
    library = Library(found, c, context, model)
    _declare(library)
    c.llama_log_set(_QUIET, None)
    c.llama_backend_init()
    _refuse_other_layout(library, path)
    return library


def _library_file(package: str) -> Path:
    """The compiled file of a package, found without importing it."""
    spec = find_spec(package)
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    names = ("xllamacpp.abi3.so", "xllamacpp*.so", "lib/libllama.so", "lib/libllama.dylib")
    found = (file for place in places for name in names for file in sorted(place.glob(name)))
    file = next(found, None)
    if file is None:
        raise LibraryUnfit(path=package, actual="it holds no compiled library")
    return file


def _structures(package: str) -> tuple[type[Structure], type[Structure]]:
    if package == XLLAMACPP:
        return ContextParams, ModelParams
    from llama_cpp import llama_cpp as theirs

    return theirs.llama_context_params, theirs.llama_model_params


def _declare(library: Library) -> None:
    """Declare the functions that take or return parameters."""
    c, context, model = library.c, library.context_params, library.model_params
    c.llama_context_default_params.restype, c.llama_context_default_params.argtypes = context, ()
    c.llama_model_default_params.restype, c.llama_model_default_params.argtypes = model, ()
    c.llama_model_load_from_file.restype, c.llama_model_load_from_file.argtypes = c_void_p, (c_char_p, model)
    c.llama_init_from_model.restype, c.llama_init_from_model.argtypes = c_void_p, (c_void_p, context)


def _refuse_other_layout(library: Library, path: Path) -> None:
    """Raise LibraryUnfit unless the defaults lie where the structure says: another layout would set other fields."""
    found = library.c.llama_context_default_params()
    told = (found.n_ctx, found.n_ubatch, found.n_seq_max, found.type_k, found.type_v, found.offload_kqv)
    expected = (_CUT, _CUT, 1, 1, 1, True)
    if told != expected or found.embeddings or found.kv_unified:
        raise LibraryUnfit(path=path, actual=f"its context parameters start as {told}, not {expected}")
