"""How several processes share a step out: each takes an equal part of the rows that one process would take.

So a step is the same rows whatever the number of processes, and its loss the same but for rounding.
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
    """Look whether so many processes can train on so many rows as is asked for. Raises NotSupported, StepUneven.

    Which groups of GRPO carry a signal is not known yet: `refuse_uneven` looks at them.
    """
    if config.processes != processes:
        actual = f"{config.processes} processes were asked for, and here is {processes}"
        raise NotSupported(backend="trainer", actual=actual, expected="to be started by `python -m trainer`")
    if isinstance(config, GrpoConfig):
        if config.backend == "own" and processes > 1:
            actual = f"{processes} processes were asked for"
            raise NotSupported(backend="own", actual=actual, expected="one process, or the backend trl")
        return
    if isinstance(config, SftConfig):
        field, step = "rows_per_step", min(config.rows_per_step, rows)
    else:
        field, step = "pairs_per_step", min(config.pairs_per_step, rows)
    refuse_uneven(step, "rows in a step", field, processes)
    if config.steps > rows // step:
        refuse_uneven(rows % step, "rows in the last step of a round through the dataset", field, processes)


def refuse_uneven(size: int, what: str, field: str, processes: int) -> None:
    """Raise StepUneven where so many rows, pairs or groups do not divide by the number of processes."""
    if size % processes:
        raise StepUneven(actual=f"{size} {what}", expected=processes, field=field)


class Shares:
    """The batches of one process: of each `size` rows, in the order of a sampler, the part that belongs to its rank."""

    def __init__(self, sampler: Sampler[int], size: int, device: Device) -> None:
        self.sampler = sampler
        self._size = size
        self._device = device

    def __len__(self) -> int:
        """How many steps a round through the dataset has; the last one is smaller where rows are left over."""
        return math.ceil(len(self.sampler) / self._size)

    def __iter__(self) -> Iterator[list[int]]:
        """One round through the dataset."""
        from torch.utils.data import BatchSampler

        for step in BatchSampler(self.sampler, self._size, drop_last=False):
            part = len(step) // self._device.processes
            yield step[part * self._device.rank :][:part]


def share_out(loader: DataLoader[Any], size: int, device: Device) -> DataLoader[Any]:
    """The loader of TRL's trainer with the shares of this process.

    Accelerate would deal whole batches out in turn, and fill the last ones up with rows of the beginning.
    """
    if device.processes > 1:
        dealing: Any = loader.batch_sampler
        dealing.batch_sampler = Shares(dealing.batch_sampler.sampler, size, device)
        dealing.num_processes, dealing.process_index, dealing.batch_size = 1, 0, None
    return loader
