"""What is probed: an environment by its methods, how its pages are visited, and what else is known of it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from ..clients.pages import Absent
from ..clients.session import Session
from ..contract import Graded, Instance, TaskText
from ..environment import Environment
from ..errors import EnvironmentFailure
from .walking import random_walk

CONTROL: Final = "control"
"""The cluster of tasks that chance decides."""
LONG_WALK: Final = 30
"""Steps at random that change something on most sites."""


class Failed(Exception):
    """A probe found what must not be; its text says what."""


class Skipped(Exception):
    """A probe's question does not arise here; its text says why."""


Solve = Callable[[Session, str, int], None]
"""Do a task (by id) on the pages of a session with the right answer of a seed. May raise Absent."""

Visit = Callable[[Instance], Session]
"""Open a session in an instance."""


def visit(instance: Instance) -> Session:
    """A session over plain HTTP, without further headers."""
    return Session(instance.url)


@dataclass(frozen=True, slots=True)
class Started:
    """A process of the site that may be killed; `kill` comes back when it is dead."""

    environment: Environment
    kill: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Deeds:
    """How the one task of a site that is used in a browser of ours is done, from what its page shows, and looked at."""

    solve: Callable[[Instance], None]
    look: Callable[[Instance], None]


@dataclass(frozen=True, slots=True)
class Target:
    """An environment to probe. `stranger` speaks to it with another token.

    `solve` is None where no solution is known, `start` where its process is not ours to kill. `url` is the admin
    address as reports show it, None for a site that we started. `headers` go on requests to its pages. `deeds` stand
    for visit and solution where there are no pages to be visited over HTTP.
    """

    name: str
    environment: Environment
    stranger: Callable[[str], AbstractContextManager[Environment]]
    tasks: tuple[TaskText, ...]
    admin_url: str
    seeds: tuple[int, ...]
    rng_seed: int
    url: str | None = None
    visit: Visit = visit
    solve: Solve | None = None
    start: Callable[[], AbstractContextManager[Started]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    deeds: Deeds | None = None

    @property
    def is_solved(self) -> bool:
        """Whether a known solution was given."""
        return self.solve is not None or self.deeds is not None

    @property
    def graded_by_deeds(self) -> tuple[TaskText, ...]:
        """The tasks that an agent can pass by what it does: all but the controls."""
        return tuple(task for task in self.tasks if task.cluster != CONTROL)

    @contextmanager
    def new_instance(self, seed: int, *, repeat: int = 0) -> Iterator[Instance]:
        """An instance of its own, closed afterwards."""
        instance = self.environment.reset(seed, repeat=repeat)
        try:
            yield instance
        except (Failed, Skipped):
            # What was found counts, not that an ill site cannot close.
            with suppress(EnvironmentFailure):
                self.environment.close(instance)
            raise
        self.environment.close(instance)

    def solve_task(self, instance: Instance, task_id: str, seed: int) -> Graded:
        """Do a task on an instance with the answer of a seed, and have it judged. Raises Skipped."""
        if self.deeds is not None:
            self.deeds.solve(instance)
            return self.environment.oracle(instance, task_id)
        if self.solve is None:
            raise Skipped("no known solution was given")
        # The answer of another seed need not be on these pages; the oracle says what came of it.
        with self.visit(instance) as session, suppress(Absent):
            self.solve(session, task_id, seed)
        return self.environment.oracle(instance, task_id)

    def use_instance(self, instance: Instance, seed: int, *, turn: int = 0) -> None:
        """Change something in an instance: do a task, or walk by seed where no solution is known.

        Raises Skipped where nothing came of it, Failed where a task was passed and no change is listed.
        """
        before, is_done = self.environment.mutations(instance), False
        if self.is_solved:
            tasks = self.graded_by_deeds or self.tasks
            is_done = self.solve_task(instance, tasks[turn % len(tasks)].task_id, seed).passed
        else:
            with self.visit(instance) as session:
                rng = random.Random(f"probe/use/{self.rng_seed}/{seed}/{turn}")  # noqa: S311 (repeatable)
                deque(random_walk(session, rng, LONG_WALK), maxlen=0)
        if self.environment.mutations(instance) == before:
            if is_done:
                raise Failed("a task was done and passed, and no mutation is listed")
            raise Skipped("nothing that was done there changed the instance")

    def looked_at(self, instance: Instance) -> None:
        """Open an instance's page, and do nothing."""
        if self.deeds is not None:
            self.deeds.look(instance)
            return
        with self.visit(instance) as session:
            session.open("/")

    def fingerprint(self, instance: Instance) -> str:
        """The fingerprint of an instance as it is now."""
        return self.environment.state(instance).fingerprint
