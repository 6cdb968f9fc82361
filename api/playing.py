"""Jobs played side by side under a progress bar, each of them recorded as it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agents.envs.environment import Environment
from agents.learning.memory import pieces_from
from agents.plans import Piece
from agents.rollouts.play import Job, Means
from agents.rollouts.record import dispatch, rollout, stopwatch
from eventlog.events import Artifact

from .decide import Course, prices
from .house import House


class Reporter(Protocol):
    """Where progress is shown."""

    def phase(self, title: str, total: int) -> AbstractContextManager[Callable[[], None]]:
        """A phase of `total` steps; the function it gives counts one."""
        ...

    def say(self, text: str) -> None:
        """One line about what has happened."""
        ...


def pieces_of(house: House, artifact: Artifact) -> tuple[Piece, ...]:
    """What an artifact remembers. Raises BlobMissing."""
    return pieces_from(house.blobs.get(artifact.memory.digest).body)


def play_jobs(
    house: House, client: Environment, title: str, jobs: Sequence[Job], course: Course, reporter: Reporter
) -> None:
    """Play every job, at the prices in force now."""
    means = Means(client, prices(house.views()), course.rule, stopwatch)
    with reporter.phase(title, len(jobs)) as advance:
        for _ in dispatch(
            jobs,
            lambda job: rollout(job, house.store, house.blobs, means),
            max_parallel=course.max_parallel,
        ):
            advance()
