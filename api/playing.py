"""Jobs played side by side under a progress bar, each of them recorded as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Protocol

from agents.envs.client import EnvClient
from agents.executors.browser import BrowserExecutor, Chromium
from agents.executors.executor import Executor
from agents.learning.memory import pieces_from
from agents.plans import Piece
from agents.rollouts.play import PLAN, Job, Means
from agents.rollouts.record import dispatch, rollout, stopwatch
from eventlog.events import Artifact

from .decide import Course, prices
from .house import House
from .settings import Settings


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


class Way(StrEnum):
    """A way of doing tasks that a command can ask for."""

    PLAN = "plan"
    BROWSER = "browser"


@contextmanager
def executor_of(way: Way, settings: Settings) -> Iterator[Executor]:
    """The executor of a way, ready to be used. Raises BrowserMissing and BrowserNotStarted."""
    match way:
        case Way.PLAN:
            yield PLAN
        case Way.BROWSER:
            with Chromium(settings.browser) as chromium:
                yield BrowserExecutor(chromium)


def play_jobs(
    house: House,
    client: EnvClient,
    title: str,
    jobs: Sequence[Job],
    course: Course,
    reporter: Reporter,
    executor: Executor = PLAN,
) -> None:
    """Play every job, at the prices in force now."""
    means = Means(client, prices(house.views()), course.rule, stopwatch, executor)
    with reporter.phase(title, len(jobs)) as advance:
        for _ in dispatch(
            jobs,
            lambda job: rollout(job, house.store, house.blobs, means),
            max_parallel=course.max_parallel,
        ):
            advance()
