"""Opens an environment that is no web site by its name."""

from __future__ import annotations

from ..contract import MICRO
from .environment import EpisodeEnvironment
from .episode import EpisodeKind
from .errors import UnknownEnvironment
from .gymnasium_envs import gymnasium_kind
from .names import parse_episode_name
from .openenv import openenv_kind
from .reasoning import reasoning_kind


def open_episodes(name: str, url: str | None = None, threshold_micro: int = MICRO) -> EpisodeEnvironment:
    """The environment of a name; an OpenEnv server needs its address as well.

    Raises UnknownEnvironment, LibraryMissing, and EnvironmentFailure if a server does not answer.
    """
    return EpisodeEnvironment(kind_of(name, url, threshold_micro))


def kind_of(name: str, url: str | None, threshold_micro: int) -> EpisodeKind:
    """The kind of episode of a name. Raises as `open_episodes`."""
    parts = parse_episode_name(name)
    if (parts.source == "openenv") != (url is not None):
        expected = "the address of its server" if url is None else "no address"
        actual = "no address was given" if url is None else f"the address {url} was given"
        raise UnknownEnvironment(environment=name, actual=actual, expected=expected)
    match parts.source:
        case "reasoning-gym":
            return reasoning_kind(name, parts, threshold_micro)
        case "gymnasium":
            return gymnasium_kind(name, parts, threshold_micro)
        case _:
            return openenv_kind(name, url or "", threshold_micro)
