"""The kits of environments that are no web sites: one for each source of names."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NoReturn

from ...envs.contract import MICRO, Instance, TaskText
from ...envs.episodes.environment import EpisodeEnvironment
from ...envs.episodes.names import SOURCES
from ...envs.episodes.opening import open_episodes
from ...envs.probing.target import Deeds, Skipped, Target
from ..kits import Inside, Kit
from .surface import on_episodes, take_random_actions


@contextmanager
def open_inside(name: str, url: str | None, threshold_micro: int | None) -> Iterator[Inside]:
    """Open an environment by its name until the block ends. Raises as `open_episodes`."""
    with open_episodes(name, url, MICRO if threshold_micro is None else threshold_micro) as environment:
        yield Inside(
            environment=environment,
            address=environment.admin_url,
            executors={},
            opening=on_episodes(environment),
            target=lambda seeds, rng_seed: episodes_target(environment, seeds=seeds, rng_seed=rng_seed),
            is_started=url is None,
        )


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


def _open_here(name: str, _chromium: Path | None) -> AbstractContextManager[Inside]:
    return open_inside(name, None, None)


def _no_tasks() -> Mapping[str, tuple[TaskText, ...]]:
    """No list: a source has as many environments as names."""
    return {}


KITS: Final = tuple(Kit(source, (), _open_here, _no_tasks, open_inside) for source in SOURCES)
