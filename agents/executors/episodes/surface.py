"""The surface of an environment that is no web site: its own actions, and what it shows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

from eventlog.events import Step

from ...envs.contract import Instance
from ...envs.episodes.environment import EpisodeEnvironment
from ...envs.episodes.episode import ActionSpec, UnfitArgument
from ..surface import Acted, Surface

CHARACTERS: Final = 20_000
"""Most characters of an observation that an agent is shown and that is recorded."""


@dataclass(frozen=True, slots=True)
class EpisodeSurface:
    """See Surface. Nothing is rendered."""

    environment: EpisodeEnvironment
    instance: Instance

    @property
    def actions(self) -> tuple[ActionSpec, ...]:
        """The actions that the environment takes."""
        return self.environment.kind.actions

    def act(self, step: Step) -> Acted:
        """See Surface. A step on a page is none of the environment's actions."""
        if step.type == "finish":
            return Acted("ok")
        if step.type != "act" or step.action not in self.environment.kind.by_name:
            return Acted("no_such_action")
        try:
            turn = self.environment.act(self.instance, step.action, step.value)
        except UnfitArgument:
            return Acted("invalid_argument")
        return Acted("ok", led=True, is_last=turn.is_over)

    def text(self) -> str:
        """See Surface."""
        return self.environment.observe(self.instance)[:CHARACTERS]

    def view(self) -> str:
        """See Surface. The same as `text`."""
        return self.text()

    def screenshot(self) -> bytes | None:
        """See Surface."""
        return None


def on_episodes(
    environment: EpisodeEnvironment,
) -> Callable[[Instance, Mapping[str, str]], AbstractContextManager[Surface]]:
    """An Opening for the instances of an environment. It ignores page headers, because nothing is requested."""

    @contextmanager
    def open_surface(instance: Instance, _page_headers: Mapping[str, str]) -> Iterator[Surface]:
        yield EpisodeSurface(environment, instance)

    return open_surface


def take_random_actions(environment: EpisodeEnvironment, instance: Instance, rng: random.Random, steps: int) -> None:
    """Take random actions in an instance until it is over. What it cannot take is passed over."""
    for _ in range(steps):
        action, argument = environment.episode_of(instance).sample_action(rng)
        try:
            if environment.act(instance, action, argument).is_over:
                return
        except UnfitArgument:
            continue
