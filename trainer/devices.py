"""Where training runs: one CPU thread count and float32, or a CUDA device and bfloat16."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

from .errors import NotOffered

_LIBRARIES = ("torch", "transformers", "peft", "trl", "accelerate", "safetensors")


@dataclass(frozen=True, slots=True)
class Device:
    """What the tensors live on, and in which torch dtype the base model is held. Adapters are always float32.

    Of several processes that train together only the main one says lines and saves.
    """

    name: str
    dtype: Any
    is_main: bool = True

    @property
    def is_cuda(self) -> bool:
        """Whether it is a CUDA device."""
        return self.name.startswith("cuda")


def prepare_device(wanted: Literal["auto", "cpu", "cuda"], threads: int, seed: int) -> Device:
    """Make this process repeatable: threads, kernels, seed. Raises NotOffered where there is no CUDA to be had."""
    import torch

    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise NotOffered(backend="cuda", actual="there is no CUDA device", expected="the device auto or cpu")
    is_cuda = has_cuda and wanted != "cpu"
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(mode=True, warn_only=is_cuda)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it fills every tensor first: a quarter of all time
    torch.manual_seed(seed)
    dtype = torch.bfloat16 if is_cuda else torch.float32
    if not is_launched():
        return Device("cuda" if is_cuda else "cpu", dtype)
    from accelerate import PartialState

    state = PartialState(cpu=not is_cuda)
    return Device(str(state.device), dtype, state.is_main_process)


def is_launched() -> bool:
    """Whether a launcher started this process as one of several."""
    import torch

    return bool(torch.distributed.is_available() and torch.distributed.is_torchelastic_launched())


def runtime(device: Device) -> dict[str, str]:
    """What a checkpoint's bytes depend on beside data and configuration: device, instruction set, threads, versions."""
    import torch

    return {
        "device": torch.cuda.get_device_name() if device.is_cuda else "cpu",
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }
