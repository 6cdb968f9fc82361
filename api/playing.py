"""Jobs played side by side under a progress bar, each of them recorded as it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from agents.envs.contract import Instance
from agents.envs.environment import Environment
from agents.envs.mutations import read_mutations
from agents.executors import policy
from agents.executors.executor import Executor, Watch, unwatched
from agents.executors.watching import watching
from agents.learning.memory import pieces_from
from agents.plans import Piece
from agents.rollouts.play import PLAN, Job, Means
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


def watching_of(client: Environment, site: str, course: Course) -> Callable[[Instance], Watch]:
    """Who looks at the steps of each instance: nobody, or the site's own record, for which no model is asked."""
    if not course.verify_steps:
        return lambda _instance: unwatched
    return watching(site, look=lambda instance, since: read_mutations(client, instance, since))


def play_jobs(
    house: House,
    client: Environment,
    title: str,
    jobs: Sequence[Job],
    course: Course,
    reporter: Reporter,
    executor: Executor = PLAN,
) -> None:
    """Play every job, at the prices in force now. A policy walks no plan, so its runs carry nothing of memory."""
    site = next((job.environment for job in jobs), "")
    watch = watching_of(client, site, course)
    means = Means(client, prices(house.views()), course.rule, stopwatch, executor, watch)
    played = jobs if executor.name != policy.NAME else [replace(job, pieces=(), candidate=None) for job in jobs]
    with reporter.phase(title, len(jobs)) as advance:
        for _ in dispatch(
            played,
            lambda job: rollout(job, house.store, house.blobs, means),
            max_parallel=course.max_parallel,
        ):
            advance()
