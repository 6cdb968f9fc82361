"""Simulated evaluations with known success probabilities, as arms for the gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from eventlog.chain import digest
from eventlog.events import (
    ArmName,
    Artifact,
    BenchmarkFrozen,
    BenchmarkTask,
    BenchmarkTemplate,
    Memory,
)
from gate.arms import Arm, Place, Result

TEMPLATES = 5
BASE, BETTER = 0.60, 0.75
CONCENTRATION = 4
ONE = 1_000_000
PASSED, FAILED = Result(ONE, passed=True, cost=1), Result(0, passed=False, cost=1)


@dataclass(frozen=True, slots=True)
class World:
    """Ground truth: `instances` in five templates, the challenger's mean success rate, and complications.

    Uneven instances have success rates from a Beta distribution with concentration 4; an instance is at the same
    quantile in both arms. `is_lacking`: exactly 5 % of the pairs are missing, each in a random arm. `has_regression`:
    the success rate of the first instance is .9 for the champion and .1 for the challenger.
    """

    instances: int = 100
    challenger: float = BETTER
    is_uneven: bool = False
    is_lacking: bool = False
    has_regression: bool = False
    repeats: int = 3

    def __str__(self) -> str:
        """Name of the world in figures."""
        tasks = "uneven tasks" if self.is_uneven else "even tasks"
        return f"{tasks}, 5 % missing" if self.is_lacking else tasks

    @property
    def gain(self) -> float:
        """True mean difference."""
        return self.challenger - BASE


@dataclass(frozen=True, slots=True)
class Chances:
    """Success rate of each instance in both arms."""

    champion: Any
    challenger: Any


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Both arms, and their scores (0 or 1) by instance and repeat; nan is missing."""

    champion: Arm
    challenger: Arm
    first: Any
    second: Any

    def falls_short(self, margin: float) -> bool:
        """True if the mean difference is clearly below the margin, so that no rule promotes; saves the judging.

        Instances are ordered by template, with equal numbers in each.
        """
        paired = ~np.isnan(self.first) & ~np.isnan(self.second)
        counts = paired.sum(axis=1)
        deltas = np.where(paired, self.second - self.first, 0).sum(axis=1) / np.maximum(counts, 1)
        by_template = deltas.reshape(TEMPLATES, -1).sum(axis=1) / (counts > 0).reshape(TEMPLATES, -1).sum(axis=1)
        return bool(by_template.mean() < margin - 1e-9)


@cache
def frozen(instances: int, repeats: int) -> BenchmarkFrozen:
    """A benchmark of sealed instances, with equal numbers for each template."""
    names = [f"t{number}" for number in range(TEMPLATES)]
    tasks = [
        BenchmarkTask(template=name, env_seed=seed, is_sealed=True)
        for name in names
        for seed in range(instances // TEMPLATES)
    ]
    return BenchmarkFrozen(
        benchmark="simulated",
        environment="simulated",
        templates=tuple(
            BenchmarkTemplate(template_id=name, cluster=name, oracle_task_id=name, instruction="", max_steps=1)
            for name in names
        ),
        tasks=tuple(tasks),
        repeats=repeats,
        alpha=50_000,
        challengers=10,
        successor_of=None,
        digest=digest([instances, repeats]).hex(),
    )


def chances(world: World, rng: np.random.Generator) -> Chances:
    """Draw the success rates of new instances."""
    if world.is_uneven:
        ranks = rng.random(world.instances)
        first, second = (
            stats.beta.ppf(ranks, CONCENTRATION * mean, CONCENTRATION * (1 - mean)) for mean in (BASE, world.challenger)
        )
    else:
        first, second = (np.full(world.instances, mean) for mean in (BASE, world.challenger))
    if world.has_regression:
        first[0], second[0] = 0.9, 0.1
    return Chances(first, second)


def simulate_arms(world: World, truth: Chances, rng: np.random.Generator) -> Evaluation:
    """Simulate both arms once."""
    shape = world.instances, world.repeats
    first, second = ((rng.random(shape) < each[:, None]) * 1.0 for each in (truth.champion, truth.challenger))
    if world.is_lacking:
        pairs = world.instances * world.repeats
        for place in rng.choice(pairs, pairs // 20, replace=False):
            (first if rng.random() < 0.5 else second).flat[place] = np.nan  # noqa: PLR2004 (either arm)
    return Evaluation(_arm(world, "champion", first), _arm(world, "challenger", second), first, second)


@cache
def _places(instances: int, repeats: int) -> tuple[Place, ...]:
    tasks = frozen(instances, repeats).tasks
    return tuple((task.template, task.env_seed, repeat) for task in tasks for repeat in range(repeats))


@cache
def _artifact(name: ArmName) -> Artifact:
    memory = Memory(upto=0 if name == "champion" else 9, folds={}, without=(), digest="0" * 64)
    return Artifact(weights="base", memory=memory)


def _arm(world: World, name: ArmName, scores: Any) -> Arm:
    places = _places(world.instances, world.repeats)
    sealed = {
        place: PASSED if score else FAILED
        for place, score in zip(places, scores.flat, strict=True)
        if score == score  # noqa: PLR0124 (not nan)
    }
    return Arm(
        name=name,
        artifact=_artifact(name),
        evaluation="simulated",
        benchmark=frozen(world.instances, world.repeats).digest,
        sealed=sealed,
        visible={},
        missing=frozenset(places) - sealed.keys(),
    )


def arm_named(name: ArmName, benchmark: BenchmarkFrozen) -> Arm:
    """An arm without results."""
    return Arm(name, _artifact(name), "simulated", benchmark.digest, {}, {}, frozenset())


def confirmed(
    world: World,
    truth: Chances,
    evaluation: Evaluation,
    worse: tuple[tuple[str, int], ...],
    repeats: int,
    rng: np.random.Generator,
) -> Evaluation:
    """Simulate `repeats` extra repeats per arm of the instances that looked worse."""
    each = world.instances // TEMPLATES
    arms = []
    for arm, known in ((evaluation.champion, truth.champion), (evaluation.challenger, truth.challenger)):
        fresh: dict[Place, Result] = {}
        for template, seed in worse:
            drawn = rng.random(repeats) < known[int(template[1:]) * each + seed]
            for index, is_passed in enumerate(drawn):
                fresh[template, seed, world.repeats + index] = PASSED if is_passed else FAILED
        arms.append(replace(arm, confirming=fresh))
    return replace(evaluation, champion=arms[0], challenger=arms[1])
