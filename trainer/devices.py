"""Training devices: the CPU in float32 with a fixed thread count, or CUDA in bfloat16; in one process or several."""

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
    """Rank of one of `of` processes, `number` from 0. They rendezvous through the file `meeting`."""

    number: int
    of: int
    meeting: Path


@dataclass(frozen=True, slots=True)
class Device:
    """Device of the tensors and torch dtype of the base model. Adapters are always float32.

    Of several processes that train together only the main one, rank 0, emits lines and saves the checkpoint.
    """

    name: str
    dtype: Any
    rank: int = 0
    processes: int = 1

    @property
    def is_cuda(self) -> bool:
        """True if this is a CUDA device."""
        return self.name.startswith("cuda")

    @property
    def is_main(self) -> bool:
        """True if this process emits lines and saves the checkpoint."""
        return self.rank == 0


def prepare_device(wanted: Literal["auto", "cpu", "cuda"], threads: int, seed: int, rank: Rank | None = None) -> Device:
    """Make this process deterministic (threads, kernels, seed), and join the process group of `rank` if given.

    Raises NotSupported if CUDA is unavailable, or has fewer devices than processes.
    """
    import torch

    _refuse_launched()
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise NotSupported(backend="cuda", actual="there is no CUDA device", expected="the device auto or cpu")
    is_cuda = has_cuda and wanted != "cpu"
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(mode=True, warn_only=is_cuda)
    torch.utils.deterministic.fill_uninitialized_memory = False  # filling every new tensor costs a quarter of the time
    torch.manual_seed(seed)
    dtype = torch.bfloat16 if is_cuda else torch.float32
    name = "cuda" if is_cuda else "cpu"
    return Device(name, dtype) if rank is None else _join_processes(rank, name, dtype)


def _join_processes(rank: Rank, name: str, dtype: Any) -> Device:
    """Join the process group and return this process's device. With CUDA each process uses a separate device."""
    import torch

    if name == "cuda":
        count = torch.cuda.device_count()
        if count < rank.of:
            actual = f"{rank.of} processes need a CUDA device each, but {count} are available"
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
    """Leave the process group, if this process is in one."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _refuse_launched() -> None:
    """Raise NotSupported if a launcher such as torchrun started several copies of this process."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        actual = "a launcher started this process as one of several"
        raise NotSupported(
            backend="trainer", actual=actual, expected="`processes` in the configuration, and no launcher"
        )


def runtime(device: Device) -> dict[str, str]:
    """Runtime facts that affect a checkpoint's bytes: device, instruction set, threads, library versions."""
    import torch

    return {
        "device": torch.cuda.get_device_name() if device.is_cuda else "cpu",
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }
