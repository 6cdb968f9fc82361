"""Plays each held-out instance once with empty memory and once with the learned memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.envs.miniwob.environment import MiniWob
from agents.executors.executor import Executor
from agents.learning.memory import build_memory_artifact, forget_everything
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.course import BASE, Course
from api.house import House
from api.reporter import Reporter
from api.sweeps.executors import recorded_as
from api.sweeps.jobs import jobs_of, play_jobs
from api.sweeps.plan import site_templates
from eventlog.blobs import Blob
from eventlog.events import Artifact
from eventlog.store import Append
from projections.rewards import REWARDS

ACTOR = "bench"
FROZEN, LEARNED = "frozen", "learned"


@dataclass(frozen=True, slots=True)
class Arm:
    """An artifact that plays held-out seeds, and the name prefix of its sweeps."""

    name: str
    artifact: Artifact


@dataclass(frozen=True, slots=True)
class Played:
    """Outcomes of a task's held-out instances in one arm, keyed by seed; None for a missing run."""

    task: str
    arm: str
    passed: tuple[bool | None, ...]

    @property
    def rate(self) -> float:
        """Share of played instances that passed."""
        known = [each for each in self.passed if each is not None]
        return sum(known) / max(1, len(known))


def arms(house: House) -> tuple[Arm, Arm]:
    """The arms: empty memory and current memory."""
    frozen, nothing = forget_everything(BASE)
    learned, content = build_memory_artifact(house.views(), BASE)
    _keep(house, nothing, content)
    return Arm(FROZEN, frozen), Arm(LEARNED, learned)


def play_held_out(
    house: House,
    environment: MiniWob,
    arm: Arm,
    seeds: Sequence[int],
    executor: Executor,
    course: Course,
    reporter: Reporter,
) -> Played:
    """Play a task's held-out seeds in one arm, recorded as a sweep without learning."""
    sweep = f"{arm.name}-{environment.name}"
    generator = SeedSweep(sweep, [site_templates(environment)[0]], seeds)
    name, _ = recorded_as(executor)
    event = plan_sweep(generator, environment.name, arm.artifact, rng_seed=course.rng_seed, learns=False, executor=name)
    house.store.append([Append(f"sweep/{sweep}", (event,), ACTOR, expect=0, key=f"sweep:{sweep}")])
    jobs = jobs_of(house, house.views(), event, event.specs)
    play_jobs(house, environment, sweep, jobs, course, reporter, executor)
    rewards = house.views().find(REWARDS, f"{sweep}__")
    found = (rewards.get(spec.spec_id) for spec in event.specs)
    return Played(environment.task.name, arm.name, tuple(None if each is None else each.passed for each in found))


def _keep(house: House, *blobs: Blob) -> None:
    house.blobs.put(list(blobs))
