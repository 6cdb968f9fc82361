"""Any Gymnasium environment: reset by seed, discrete or JSON actions, its own rewards.

A discrete action is an action by its name, if the environment names its actions in an enumeration (as MiniGrid does),
else `step` with a number. Other action spaces take `step` with `{"action": ...}`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from ..contract import MICRO
from .episode import SEEDS_END, ActionSpec, EpisodeKind, Turn, UnfitArgument, reward_in_micro
from .errors import LibraryMissing, UnknownEnvironment
from .names import EpisodeName

STEP: Final = "step"
_ANSI: Final = "ansi"


def gymnasium_kind(name: str, parts: EpisodeName, threshold_micro: int = MICRO) -> EpisodeKind:
    """The kind of what `gymnasium.make` makes. Raises LibraryMissing, UnknownEnvironment."""
    try:
        import gymnasium  # noqa: PLC0415 - an extra, imported on use
    except ImportError as problem:
        raise LibraryMissing(environment=name, actual="gymnasium", expected="gymnasium") from problem

    def make() -> Any:
        try:
            return gymnasium.make(parts.id, **_make_arguments(gymnasium, parts))
        except (gymnasium.error.Error, ImportError, TypeError, ValueError, AssertionError) as problem:
            actual = " ".join(str(problem).split()) or type(problem).__name__
            raise UnknownEnvironment(
                environment=name, actual=actual, expected="an id that gymnasium.make knows"
            ) from problem

    first = make()
    try:
        actions, numbers = _actions_of(first)
        mission = getattr(first.unwrapped, "mission", None)
    finally:
        first.close()
    instruction = f"Reach the goal of {parts.id}: act until the episode is over." if not mission else str(mission)
    return EpisodeKind(
        name,
        instruction,
        actions,
        lambda seed: GymnasiumEpisode(make(), numbers, seed),
        threshold_micro=threshold_micro,
        max_steps=100,
    )


def _make_arguments(gymnasium: Any, parts: EpisodeName) -> dict[str, Any]:
    """Arguments of `make`: the settings, and text rendering where the environment offers it."""
    settings: dict[str, Any] = dict(parts.settings)
    if parts.module is not None:
        import_module(parts.module)  # registers its worlds, as `gymnasium.make` does for `module:id`
    modes = _render_modes(gymnasium, parts.id)
    return settings if "render_mode" in settings or _ANSI not in modes else {**settings, "render_mode": _ANSI}


def _render_modes(gymnasium: Any, its: str) -> tuple[str, ...]:
    try:
        creator = gymnasium.envs.registration.load_env_creator(gymnasium.spec(its).entry_point)
    except (gymnasium.error.Error, AttributeError, ImportError, TypeError, ValueError):
        return ()
    metadata = getattr(creator, "metadata", None) or {}
    return tuple(metadata.get("render_modes", ()))


def _actions_of(made: Any) -> tuple[tuple[ActionSpec, ...], Mapping[str, int]]:
    """The actions of an environment, and the number of each that is a discrete action by name."""
    space = made.action_space
    if type(space).__name__ != "Discrete":
        return (ActionSpec(STEP, f'act; the argument is {{"action": a value of {space}}}', "json"),), {}
    begin, end = int(space.start), int(space.start) + int(space.n)
    named = getattr(made.unwrapped, "actions", None)
    members = {} if named is None else getattr(named, "__members__", {})
    numbers = {str(key).lower(): int(value) for key, value in members.items() if begin <= int(value) < end}
    if sorted(numbers.values()) == list(range(begin, end)):
        return tuple(ActionSpec(key, f"{key.replace('_', ' ')}", "none") for key in numbers), numbers
    return (ActionSpec(STEP, f"act; the argument is a whole number from {begin} to {end - 1}"),), {}


class GymnasiumEpisode:
    """One environment of Gymnasium from its reset to its end. See Episode."""

    def __init__(self, made: Any, numbers: Mapping[str, int], seed: int) -> None:
        self._made = made
        self._numbers = numbers
        seen, _info = made.reset(seed=seed % SEEDS_END)
        self._start = self._describe(seen)

    @property
    def observation(self) -> str:
        """See Episode."""
        return self._start

    @property
    def solution(self) -> tuple[tuple[str, str | None], ...] | None:
        """See Episode: no environment tells it."""
        return None

    def act(self, action: str, argument: str | None) -> Turn:
        """See Episode. Raises UnfitArgument for what is not in the action space."""
        chosen = self._numbers[action] if action in self._numbers else self._parse(argument or "")
        if not self._made.action_space.contains(chosen):
            raise UnfitArgument(f"it is not in {self._made.action_space}")
        seen, reward, is_terminated, is_truncated, _info = self._made.step(chosen)
        return Turn(self._describe(seen), reward_in_micro(float(reward)), is_over=bool(is_terminated or is_truncated))

    def sample_action(self, rng: random.Random) -> tuple[str, str | None]:
        """See Episode."""
        if self._numbers:
            return rng.choice(sorted(self._numbers)), None
        self._made.action_space.seed(rng.randrange(SEEDS_END))
        drawn = self._made.action_space.sample()
        if type(self._made.action_space).__name__ == "Discrete":
            return STEP, str(int(drawn))
        return STEP, json.dumps({"action": _plain(drawn)})

    def close(self) -> None:
        """See Episode."""
        self._made.close()

    def _parse(self, argument: str) -> Any:
        space = self._made.action_space
        try:
            if type(space).__name__ == "Discrete":
                return int(argument.strip())
            return space.from_jsonable([json.loads(argument)["action"]])[0]
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as problem:
            raise UnfitArgument(f"expected a value of {space}") from problem

    def _describe(self, seen: Any) -> str:
        """The observation as text: the environment's own rendering where there is one, else JSON."""
        shown = self._made.render() if self._made.render_mode == _ANSI else None
        told = seen if isinstance(seen, str) else json.dumps(_plain(seen), ensure_ascii=False, sort_keys=True)
        return f"{shown}\n{told}" if isinstance(shown, str) else told


def _plain(value: Any) -> Any:
    """A value of arrays, numbers and mappings as JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value if isinstance(value, str | int | float | bool | None) else str(value)
