"""One model of llama.cpp in memory with its context: decoding of tokens of several sequences, and adapters on it.

The attention cache is float32 by default and shared by all sequences, flash attention is off: logits are those of
Transformers in float32 but for rounding, which `make bench-serving` measures. Flash attention rounds to float16 inside,
also with a cache in float32. For use by one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_float, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ..errors import AdapterUnfit, BaseUnfit, DrawingFailed
from .library import TYPES, Library

if TYPE_CHECKING:
    from numpy.typing import NDArray

CacheType = Literal["f32", "f16"]

SEQUENCES: Final = 64
"""Most sequences of a context, in rows and kept prefixes together."""
BATCH: Final = 512
"""Most tokens of one pass."""


@dataclass(frozen=True, slots=True)
class ReadToken:
    """A token to read: its sequence, its position, and whether the logits after it are wanted."""

    token: int
    sequence: int
    place: int
    is_last: bool


class Context:
    """A GGUF model and its context of `cells` tokens in all sequences together, cached as numbers of type `cache`.

    `flash` computes with flash attention. Raises BaseUnfit if llama.cpp cannot load the file.
    """

    def __init__(
        self, library: Library, file: Path, cells: int, threads: int, cache: CacheType = "f32", *, flash: bool = False
    ) -> None:
        self.cells = cells
        self._c = library.c
        self._batch: Any = None
        self._model = self._c.llama_model_load_from_file(str(file).encode(), self._c.llama_model_default_params())
        if not self._model:
            raise BaseUnfit(path=file, actual="llama.cpp cannot load it", expected="a complete GGUF file of a model")
        params = self._c.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = cells, BATCH, BATCH, SEQUENCES
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = TYPES[cache]
        params.flash_attn_type = int(flash)
        params.kv_unified = True
        self._context = self._c.llama_init_from_model(self._model, params)
        made = (0, 0, 0)
        if self._context:
            own = self._context
            made = (self._c.llama_n_ctx(own), self._c.llama_n_seq_max(own), self._c.llama_n_threads(own))
        if made[0] < cells or made[1:] != (SEQUENCES, threads):
            self.close()
            raise BaseUnfit(path=file, actual=f"its context has {made}", expected=f"{(cells, SEQUENCES, threads)}")
        self._memory = self._c.llama_get_memory(self._context)
        self._batch = self._c.llama_batch_init(BATCH, 0, 1)
        self.vocabulary = int(self._c.llama_vocab_n_tokens(self._c.llama_model_get_vocab(self._model)))

    def load_adapter(self, file: Path) -> int:
        """Load a GGUF adapter without activating it; returns its handle. Raises AdapterUnfit."""
        handle = self._c.llama_adapter_lora_init(self._model, str(file).encode())
        if not handle:  # None and 0 alike
            raise AdapterUnfit(path=file, actual="llama.cpp cannot load it", expected="a GGUF adapter for this base")
        return int(handle)

    def free_adapter(self, handle: int) -> None:
        """Free an adapter. It must not be active."""
        self._c.llama_adapter_lora_free(handle)

    def wear(self, handle: int | None, scale: float) -> None:
        """Activate an adapter, or the base alone (None), for the next pass. Raises DrawingFailed."""
        count = 0 if handle is None else 1
        handles, scales = (c_void_p * 1)(handle), (c_float * 1)(scale)
        if self._c.llama_set_adapters_lora(self._context, handles, count, scales):
            raise DrawingFailed(model="of llama.cpp", actual="the adapter was not activated")

    def decode(self, wanted: Sequence[ReadToken]) -> NDArray[Any]:
        """Read tokens; the logits (last tokens, vocabulary) after those that are marked as last, in order.

        Raises DrawingFailed.
        """
        import numpy as np

        found = []
        for first in range(0, len(wanted), BATCH):
            part = wanted[first : first + BATCH]
            self._fill(part)
            if code := self._c.llama_decode(self._context, self._batch):
                raise DrawingFailed(model="of llama.cpp", actual=f"llama_decode returned {code}")
            for index, each in enumerate(part):
                if each.is_last:
                    row = self._c.llama_get_logits_ith(self._context, index)
                    found.append(np.ctypeslib.as_array(row, (self.vocabulary,)).copy())
        logits: NDArray[Any] = np.stack(found)
        return logits

    def _fill(self, part: Sequence[ReadToken]) -> None:
        batch = self._batch
        batch.n_tokens = len(part)
        for index, each in enumerate(part):
            batch.token[index], batch.pos[index] = each.token, each.place
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, each.sequence
            batch.logits[index] = each.is_last

    def remove(self, sequence: int, first: int = 0) -> None:
        """Forget the tokens of a sequence from position `first` on."""
        self._c.llama_memory_seq_rm(self._memory, sequence, first, -1)

    def copy(self, sequence: int, to: int, length: int) -> None:
        """Share the first tokens of a sequence with another one."""
        self._c.llama_memory_seq_cp(self._memory, sequence, to, 0, length)

    def close(self) -> None:
        """Free the context and the model, with the adapters on it."""
        if self._batch is not None:
            self._c.llama_batch_free(self._batch)
            self._batch = None
        if self._context:
            self._c.llama_free(self._context)
        self._c.llama_model_free(self._model)
        self._context = self._model = None
