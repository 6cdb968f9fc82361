"""Environments that are no web sites, for commands: opened by name, and their target for probing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from agents.envs.contract import Instance
from agents.envs.episodes.environment import EpisodeEnvironment
from agents.envs.episodes.opening import open_episodes
from agents.envs.probing.target import Deeds, Skipped, Target
from agents.executors.episodes import take_random_actions


@contextmanager
def open_environment(name: str, url: str | None) -> Iterator[EpisodeEnvironment]:
    """Open an environment by its name until the block ends. Raises as `open_episodes`."""
    with open_episodes(name, url) as environment:
        yield environment


def episodes_target(environment: EpisodeEnvironment, *, seeds: tuple[int, ...], rng_seed: int) -> Target:
    """Target for probing, with the environment's own solution where it tells one. Probes of HTTP are skipped."""

    def look(instance: Instance) -> None:
        environment.observe(instance)

    def walk(instance: Instance, rng: random.Random, steps: int) -> None:
        take_random_actions(environment, instance, rng, steps)

    return Target(
        name=environment.name,
        environment=environment,
        stranger=_no_stranger,
        tasks=environment.health().tasks,
        admin_url="",
        seeds=seeds,
        rng_seed=rng_seed,
        url=environment.kind.address or None,
        deeds=Deeds(_solution(environment, seeds[0]), look, walk),
    )


def _solution(environment: EpisodeEnvironment, seed: int) -> Callable[[Instance], None] | None:
    """Takes the actions that the environment knows to earn its reward; None if it knows none."""
    first = environment.reset(seed)
    is_known = environment.episode_of(first).solution is not None
    environment.close(first)

    def solve(instance: Instance) -> None:
        for action, argument in environment.episode_of(instance).solution or ():
            environment.act(instance, action, argument)

    return solve if is_known else None


def _no_stranger(_token: str) -> NoReturn:
    raise Skipped("it has no admin surface: it is asked in this process")
