"""Divides each training step equally among several processes.

A step uses the same rows for any number of processes, and its loss differs only by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .devices import Device
from .errors import NotSupported, StepUneven
from .request import Config, GrpoConfig, SftConfig

if TYPE_CHECKING:
    from torch.utils.data import DataLoader, Sampler


def refuse_unshared(config: Config, rows: int, processes: int) -> None:
    """Check that the configured steps can be divided among the processes. Raises NotSupported, StepUneven.

    GRPO groups are checked later by `refuse_uneven`, because the groups with a signal are not known yet.
    """
    if config.processes != processes:
        actual = f"the configuration sets {config.processes} processes, but {processes} is running"
        raise NotSupported(backend="trainer", actual=actual, expected="a start by `python -m trainer`")
    if config.sharded and processes == 1:
        actual = "`sharded` in one process, which holds all weights"
        raise NotSupported(backend="trainer", actual=actual, expected="`processes` of 2 or more")
    if isinstance(config, GrpoConfig):
        if config.backend == "own" and processes > 1:
            actual = f"the configuration sets {processes} processes"
            raise NotSupported(backend="own", actual=actual, expected="one process, or the backend trl")
        return
    if isinstance(config, SftConfig):
        field, step = "rows_per_step", min(config.rows_per_step, rows)
    else:
        field, step = "pairs_per_step", min(config.pairs_per_step, rows)
    refuse_uneven(step, "rows in a step", field, processes)
    if config.steps > rows // step:
        refuse_uneven(rows % step, "rows in the last step of an epoch", field, processes)


def refuse_uneven(size: int, what: str, field: str, processes: int) -> None:
    """Raise StepUneven if `size` rows, pairs or groups are not divisible by the number of processes."""
    if size % processes:
        raise StepUneven(actual=f"{size} {what}", expected=processes, field=field)


class Shares:
    """Passes of one process: its rank's part of each `size` rows, in the order of a sampler, in pieces of `rows`."""

    def __init__(self, sampler: Sampler[int], size: int, device: Device, rows: int) -> None:
        self.sampler = sampler
        self._size = size
        self._device = device
        self._rows = rows

    def __len__(self) -> int:
        """Number of passes per epoch; the last step may have fewer."""
        whole, rest = divmod(len(self.sampler), self._size)
        sizes = (self._size, rest)
        full, last = (math.ceil(size // self._device.processes / self._rows) for size in sizes)
        return whole * full + last

    def __iter__(self) -> Iterator[list[int]]:
        """Iterate over one epoch."""
        from torch.utils.data import BatchSampler

        for step in BatchSampler(self.sampler, self._size, drop_last=False):
            part = len(step) // self._device.processes
            own = step[part * self._device.rank :][:part]
            for first in range(0, part, self._rows):
                yield own[first : first + self._rows]


def share_out(loader: DataLoader[Any], size: int, device: Device, rows: int) -> DataLoader[Any]:
    """Give the loader of TRL's trainer the shares of this process.

    Accelerate would instead assign whole batches in turn, and pad the last ones with rows from the beginning.
    """
    if device.processes > 1:
        dealing: Any = loader.batch_sampler
        dealing.batch_sampler = Shares(dealing.batch_sampler.sampler, size, device, rows)
        dealing.num_processes, dealing.process_index, dealing.batch_size = 1, 0, None
    return loader
