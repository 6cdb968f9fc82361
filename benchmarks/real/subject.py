"""What differs between the parts of the demonstration, as data: tasks, instances, the schema of an answer, sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from agents.models.model import Schema
from api.environments.connect import Placed
from api.house import House

from .effort import Effort

Instances = Mapping[str, tuple[int, ...]]
"""Environment seeds by task. The tasks that are trained have seeds of their own, so a seed names an instance."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Instances of a task, by environment seed, on which arms are judged."""

    task: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """One part: what is learned, and what it is judged on.

    `asked` gives the training instances of a training seed: part 0 is the base's sweep, then one part for each round.
    `columns` are the held-out instances by their name in the table. By the first column arms are compared; the last
    `untrained` ones have tasks that nothing is trained on. `schema` is that of an answer of the arm that is decoded
    under one. `open_tasks` opens every task that is trained or held out.
    """

    name: str
    effort: Effort
    asked: Callable[[int, int], Instances]
    columns: Mapping[str, tuple[HeldOut, ...]]
    untrained: int
    schema: Schema
    open_tasks: Callable[[House], AbstractContextManager[Mapping[str, Placed]]]

    @property
    def compared(self) -> str:
        """The column by which arms are compared: held-out instances of what is trained."""
        return next(iter(self.columns))

    @property
    def others(self) -> tuple[str, ...]:
        """The columns of tasks that nothing is trained on."""
        return tuple(self.columns)[len(self.columns) - self.untrained :]

    @property
    def held_out(self) -> tuple[HeldOut, ...]:
        """What is played for the columns, each once."""
        return tuple(dict.fromkeys(each for parts in self.columns.values() for each in parts))
