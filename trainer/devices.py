"""Where training runs: one CPU thread count and float32, or a CUDA device and bfloat16; in one process or several."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from .errors import NotSupported

_LIBRARIES = ("torch", "transformers", "peft", "trl", "accelerate", "safetensors")


@dataclass(frozen=True, slots=True)
class Rank:
    """Which of several processes this is, `number` from 0 on. They find each other through the file `meeting`."""

    number: int
    of: int
    meeting: Path


@dataclass(frozen=True, slots=True)
class Device:
    """What the tensors live on, and in which torch dtype the base model is held. Adapters are always float32.

    Of several processes that train together only the main one, whose rank is 0, says lines and saves.
    """

    name: str
    dtype: Any
    rank: int = 0
    processes: int = 1

    @property
    def is_cuda(self) -> bool:
        """Whether it is a CUDA device."""
        return self.name.startswith("cuda")

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that says lines and saves."""
        return self.rank == 0


def prepare_device(wanted: Literal["auto", "cpu", "cuda"], threads: int, seed: int, rank: Rank | None = None) -> Device:
    """Make this process repeatable: threads, kernels, seed; and let it meet the others, if there are any.

    Raises NotSupported where there is no CUDA to be had, or not as many devices as processes.
    """
    import torch

    _refuse_launched()
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise NotSupported(backend="cuda", actual="there is no CUDA device", expected="the device auto or cpu")
    is_cuda = has_cuda and wanted != "cpu"
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(mode=True, warn_only=is_cuda)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it fills every tensor first: a quarter of all time
    torch.manual_seed(seed)
    dtype = torch.bfloat16 if is_cuda else torch.float32
    name = "cuda" if is_cuda else "cpu"
    return Device(name, dtype) if rank is None else _join_processes(rank, name, dtype)


def _join_processes(rank: Rank, name: str, dtype: Any) -> Device:
    """The device of one of several processes, once it has met the others. Each takes a CUDA device of its own."""
    import torch

    if name == "cuda":
        count = torch.cuda.device_count()
        if count < rank.of:
            actual = f"{rank.of} processes want a CUDA device each, and there are {count}"
            raise NotSupported(backend="cuda", actual=actual, expected=f"at most {count} processes, or the device cpu")
        torch.cuda.set_device(rank.number)
        name = f"cuda:{rank.number}"
    torch.distributed.init_process_group(
        "gloo" if name == "cpu" else "nccl",
        store=torch.distributed.FileStore(str(rank.meeting), rank.of),
        rank=rank.number,
        world_size=rank.of,
    )
    return Device(name, dtype, rank.number, rank.of)


def part() -> None:
    """Let this process part from the others that it trained with, if there are any."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _refuse_launched() -> None:
    """Raise NotSupported where something else started this process as one of several, each of which would train."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        actual = "a launcher started it as one of several processes"
        raise NotSupported(
            backend="trainer", actual=actual, expected="`processes` in the configuration, and no launcher"
        )


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
