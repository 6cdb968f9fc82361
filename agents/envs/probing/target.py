"""Probe targets: an environment's client, how its pages are visited, and optional facts about it."""

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
from ..unclosed_instances import close_or_count
from .walking import random_walk

CONTROL: Final = "control"
"""Cluster of the tasks that chance decides."""
LONG_WALK: Final = 30
"""Number of random steps that changes something on most sites."""


class Failed(Exception):
    """A probe failed; the text says why."""


class Skipped(Exception):
    """A probe does not apply here; the text says why."""


Solve = Callable[[Session, str, int], None]
"""Do a task (by id) in a session with the correct answer for a seed. May raise Absent."""

Play = Callable[[Session], object]
"""Play the plan of a task in a session. May fail to do the task."""

Visit = Callable[[Instance], Session]
"""Open a session in an instance."""


def visit(instance: Instance) -> Session:
    """Open a session over plain HTTP, without extra headers."""
    return Session(instance.url)


@dataclass(frozen=True, slots=True)
class Started:
    """A site process that may be killed; `kill` returns once it is dead."""

    environment: Environment
    kill: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Deeds:
    """Actions on the only task of an environment in this process, in place of visits over HTTP.

    `solve` solves it (None: no solution is known), `look` looks at it, `walk` takes this many random actions (None: its
    instances are not walked).
    """

    solve: Callable[[Instance], None] | None
    look: Callable[[Instance], None]
    walk: Callable[[Instance, random.Random, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """An environment to probe. `stranger` is a client with a wrong token.

    `solve` is None if no solution is known, `start` if the process is not ours to kill. `url` is the admin address
    shown in reports, None for a site that we started. `headers` are sent with every page request. `deeds` replace
    visit and solution if the pages cannot be visited over HTTP. `one_instance` is true for a site that serves one
    instance at a time. `plays` are the plans of its suite, by task id: plans may be wrong, so they show answers only
    where they pass. Probes note in `alike` the tasks whose right answer is the same at every seed.
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
    one_instance: bool = False
    plays: Mapping[str, Play] = field(default_factory=dict)
    alike: set[str] = field(default_factory=set)

    @property
    def is_solved(self) -> bool:
        """True if a known solution was given."""
        return self.solve is not None or (self.deeds is not None and self.deeds.solve is not None)

    @property
    def graded_by_deeds(self) -> tuple[TaskText, ...]:
        """Tasks that an agent's actions decide: all except the controls."""
        return tuple(task for task in self.tasks if task.cluster != CONTROL)

    @contextmanager
    def new_instance(self, seed: int, *, repeat: int = 0) -> Iterator[Instance]:
        """Yield a fresh instance and close it afterwards."""
        instance = self.environment.reset(seed, repeat=repeat)
        try:
            yield instance
        except (Failed, Skipped):
            close_or_count(self.environment, instance)  # a failing close must not hide the probe's result
            raise
        self.environment.close(instance)

    def solve_task(self, instance: Instance, task_id: str, seed: int) -> Graded:
        """Do a task on an instance with the answer of a seed, and grade it. Raises Skipped."""
        if self.deeds is not None and self.deeds.solve is not None:
            self.deeds.solve(instance)
            return self.environment.oracle(instance, task_id)
        if self.solve is None:
            raise Skipped("no known solution was given")
        # The answer of another seed may be missing from these pages; the oracle grades the outcome anyway.
        with self.visit(instance) as session, suppress(Absent):
            self.solve(session, task_id, seed)
        return self.environment.oracle(instance, task_id)

    def use_instance(self, instance: Instance, seed: int, *, turn: int = 0) -> None:
        """Change an instance: do a task, or walk at random if no solution is known.

        Raises Skipped if nothing changed, Failed if a task was passed but no change is listed.
        """
        before, is_done = self.environment.mutations(instance), False
        if self.is_solved:
            tasks = self.graded_by_deeds or self.tasks
            task = tasks[turn % len(tasks)].task_id
            was_done = self.environment.oracle(instance, task).passed
            is_done = self.solve_task(instance, task, seed).passed and not was_done
        else:
            rng = random.Random(f"probe/use/{self.rng_seed}/{seed}/{turn}")  # noqa: S311 (repeatable)
            self._walk(instance, rng)
        if self.environment.mutations(instance) == before:
            if is_done:
                raise Failed("a task was done and passed, and no mutation is listed")
            raise Skipped("nothing that was done there changed the instance")

    def _walk(self, instance: Instance, rng: random.Random) -> None:
        if self.deeds is not None and self.deeds.walk is not None:
            self.deeds.walk(instance, rng, LONG_WALK)
            return
        with self.visit(instance) as session:
            deque(random_walk(session, rng, LONG_WALK), maxlen=0)

    def looked_at(self, instance: Instance) -> None:
        """Open an instance's page without acting."""
        if self.deeds is not None:
            self.deeds.look(instance)
            return
        with self.visit(instance) as session:
            session.open("/")

    def fingerprint(self, instance: Instance) -> str:
        """Current fingerprint of an instance."""
        return self.environment.state(instance).fingerprint
