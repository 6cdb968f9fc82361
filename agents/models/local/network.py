"""Weights in memory: one base, any number of adapters on it, and a forward pass with one of them at a time.

For use by one thread. torch is imported here, on use.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from eventlog.weights_folder import Base, folder_digest

from ..errors import AdapterUnfit, BaseUnfit, LibrariesMissing
from .adapters import Adapter, read_adapter
from .cells import KEPT_BYTES, Cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

BASE: Final = "base"
PREFIX: Final = "transformers:"
"""Prefix of these models' names. In settings the folder of the base follows, in the log its digest."""
Device = Literal["auto", "cpu", "cuda"]


class TransformersNetwork:
    """A base model with its adapters, on the CPU in float32 or on a CUDA device in bfloat16.

    Raises BaseUnfit if the weights cannot be read or the folder changed since it was named, LibrariesMissing.
    """

    def __init__(self, base: Base, device: Device, threads: int) -> None:
        refuse_missing(base.path)
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        torch.set_num_threads(threads)
        self._device = "cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu"
        dtype = torch.float32 if self._device == "cpu" else torch.bfloat16
        try:
            model = AutoModelForCausalLM.from_pretrained(base.path, dtype=dtype, local_files_only=True)
        except (OSError, ValueError, SafetensorError) as problem:
            said = str(problem).splitlines()[0]
            raise BaseUnfit(path=base.path, actual=said, expected="weights of a causal language model") from problem
        # Only files that changed since the base was named are hashed again.
        if (actual := folder_digest(base.path)) != base.digest:
            raise BaseUnfit(path=base.path, actual=f"its digest is now {actual}", expected=base.digest)
        self._model: Any = model.to(self._device).eval()
        self._peft: Any = None
        self._worn = BASE
        self.most_kept = KEPT_BYTES

    def new_cells(self, _weights: str, _kept: object) -> Cells:
        """See Network."""
        return Cells()

    def attach(self, adapter: Adapter) -> None:
        """Load an adapter onto the base, without activating it. Raises AdapterUnfit."""
        from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
        from safetensors.torch import load

        if self._peft is not None and adapter.digest in self._peft.peft_config:
            return
        tensors = load(adapter.tensors)
        described = {name: value for name, value in adapter.description.items() if name != "base_model_name_or_path"}
        config = LoraConfig(**described)
        try:
            if self._peft is None:
                self._peft = get_peft_model(self._model, config, adapter_name=adapter.digest)
            else:
                self._peft.add_adapter(adapter.digest, config)
        except ValueError as problem:
            said = str(problem).splitlines()[0]
            raise AdapterUnfit(path=adapter.path, actual=said, expected="layers that the base has") from problem
        self._worn = ""
        with ExitStack() as undo:
            # Otherwise the next call would take a partly loaded adapter for a complete one.
            undo.callback(self._peft.delete_adapter, adapter.digest)
            self._refuse_other_shapes(adapter, tensors)
            set_peft_model_state_dict(self._peft, tensors, adapter_name=adapter.digest)
            self._peft.to(self._device)
            undo.pop_all()

    def detach(self, digest: str) -> None:
        """Remove an adapter from memory. At least one other must be attached."""
        self._wear(next(name for name in self._peft.peft_config if name != digest))  # PEFT warns of an active one
        self._peft.delete_adapter(digest)

    def close(self) -> None:
        """See Network. The tensors are freed with it."""

    def read(self, weights: str, cells: Cells, row: int, ids: Sequence[int], first: int) -> NDArray[Any]:
        """Read the tokens of a row from position `first` on. Returns the logits of the next token."""
        import torch

        self._wear(weights)
        with torch.no_grad():
            cells.read(row, first, len(ids))
            places = torch.arange(first, len(ids), device=self._device)
            visible = torch.arange(len(ids), device=self._device)[None, :] <= places[:, None]
            logits = self._forward(torch.tensor([list(ids[first:])]), places[None], visible[None, None], cells)
            found: NDArray[Any] = self._numbers(logits)[0]
            return found

    def step(self, weights: str, cells: Cells, tokens: Sequence[int], places: Sequence[int]) -> NDArray[Any]:
        """Read one token of each row, at its position. Returns the logits of each row's next token."""
        import torch

        self._wear(weights)
        with torch.no_grad():
            upto = max(places) + 1
            at = torch.tensor(places, device=self._device)
            cells.step(at, upto)
            visible = torch.arange(upto, device=self._device)[None, :] <= at[:, None]
            return self._numbers(
                self._forward(torch.tensor(tokens)[:, None], at[:, None], visible[:, None, None], cells)
            )

    def _forward(self, ids: Any, places: Any, visible: Any, cells: Cells) -> Any:
        answer = self._model(
            input_ids=ids.to(self._device),
            attention_mask=visible,
            position_ids=places,
            past_key_values=cells,
            use_cache=True,
            logits_to_keep=1,
        )
        return answer.logits[:, -1]

    def _numbers(self, logits: Any) -> NDArray[Any]:
        found: NDArray[Any] = logits.float().cpu().numpy()
        return found

    def _wear(self, weights: str) -> None:
        """Activate this adapter, or the base alone, for the next pass."""
        if weights == self._worn:
            return
        if weights == BASE and self._peft is not None:
            self._peft.base_model.disable_adapter_layers()
        elif weights != BASE:
            self._peft.base_model.enable_adapter_layers()
            self._peft.set_adapter(weights, inference_mode=True)
        self._worn = weights

    def _refuse_other_shapes(self, adapter: Adapter, tensors: dict[str, Any]) -> None:
        """Raise AdapterUnfit if a tensor would be ignored, or would keep its initial values."""
        from peft import get_peft_model_state_dict

        held = get_peft_model_state_dict(self._peft, adapter_name=adapter.digest, save_embedding_layers=False)
        theirs = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        ours = {name: tuple(tensor.shape) for name, tensor in held.items()}
        if theirs != ours:
            name = min(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
            raise AdapterUnfit(
                path=adapter.path,
                actual=f"{name} is {theirs.get(name, 'missing')}",
                expected=ours.get(name, "no such tensor"),
            )


@dataclass(frozen=True, slots=True)
class TransformersEngine:
    """Base models in torch, on the CPU in float32 or on a CUDA device in bfloat16. See ModelEngine."""

    device: Device = "auto"
    threads: int = 1
    is_exact: bool = True
    prefix: str = PREFIX

    def refuse_missing(self, what: object) -> None:
        """See ModelEngine."""
        refuse_missing(what)

    def load(self, base: Base) -> TransformersNetwork:
        """See ModelEngine."""
        return TransformersNetwork(base, self.device, self.threads)

    def read_adapter(self, path: Path, digest: str, base: Base) -> Adapter:
        """See ModelEngine."""
        return read_adapter(path, digest, base)


def refuse_missing(what: object) -> None:
    """Raise LibrariesMissing for the model `what` if the libraries that load models are not installed."""
    try:
        import peft  # noqa: F401 checks that it is installed
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as problem:
        raise LibrariesMissing(path=what, actual=str(problem)) from problem
