"""Episodes: one instance of an environment that is no web site, its actions, and what an action brings."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from ..contract import MICRO

Argument = Literal["text", "json", "none"]
"""Argument of an action: a text, a JSON object, or nothing."""

SEEDS_END: Final = 2**32
"""Libraries seed their random numbers with 32 bits; an instance's seed is taken modulo this."""


class UnfitArgument(Exception):
    """The environment cannot take the action with this argument; the text says why."""


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """An action of an environment: its open name, what it does, and the argument that it takes."""

    name: str
    about: str
    argument: Argument = "text"


@dataclass(frozen=True, slots=True)
class Turn:
    """Result of an action: what is seen, this action's reward in millionths, and whether the episode is over."""

    observation: str
    reward_micro: int
    is_over: bool


class Episode(Protocol):
    """One instance from its start to its end, used by one thread at a time. Methods raise EnvironmentFailure."""

    @property
    def observation(self) -> str:
        """The observation at the start."""
        ...

    @property
    def solution(self) -> tuple[tuple[str, str | None], ...] | None:
        """Actions with their arguments that earn the full reward; None if they are not known. Never shown to agents."""
        ...

    def act(self, action: str, argument: str | None) -> Turn:
        """Take one action. Raises UnfitArgument."""
        ...

    def sample_action(self, rng: random.Random) -> tuple[str, str | None]:
        """A random action with its argument."""
        ...

    def close(self) -> None:
        """Free what the episode holds."""
        ...


@dataclass(frozen=True, slots=True)
class EpisodeKind:
    """A kind of episode: its name in events, its instruction and actions, and how an instance is started from a seed.

    A run passed if its score, the sum of its rewards between 0 and 1, is at least `threshold_micro`.
    """

    name: str
    instruction: str
    actions: tuple[ActionSpec, ...]
    start: Callable[[int], Episode] = field(repr=False)
    address: str = ""
    threshold_micro: int = MICRO
    max_steps: int = 40
    cluster: str = "unsorted"

    @property
    def by_name(self) -> Mapping[str, ActionSpec]:
        """The actions by name."""
        return {each.name: each for each in self.actions}


def reward_in_micro(reward: float) -> int:
    """A reward in millionths, rounded to the nearest. Raises ValueError if it is not finite."""
    if not math.isfinite(reward):
        raise ValueError(f"the reward is {reward!r}, not a finite number")
    return round(reward * MICRO)
