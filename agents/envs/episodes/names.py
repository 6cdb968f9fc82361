"""Names of environments that are no web sites: `SOURCE.ID?setting=value`, which say everything about their instances.

`reasoning-gym.chain_sum?max_terms=2` is the data set `chain_sum` with sums of at most two terms;
`gymnasium.minigrid:MiniGrid-DoorKey-5x5-v0` is what `gymnasium.make("minigrid:MiniGrid-DoorKey-5x5-v0")` makes.
Settings are written in the order of their names, so that equal environments have equal names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from pydantic import JsonValue

from .errors import UnknownEnvironment

SOURCES: Final = ("reasoning-gym", "gymnasium", "openenv")


@dataclass(frozen=True, slots=True)
class EpisodeName:
    """A name in parts."""

    source: str
    id: str
    settings: Mapping[str, JsonValue]


def is_episode_name(name: str) -> bool:
    """True if a name begins with one of the sources."""
    return name.partition(".")[0] in SOURCES


def parse_episode_name(name: str) -> EpisodeName:
    """The parts of a name. Raises UnknownEnvironment if it has none of the sources, or settings out of order."""
    whole, _, query = name.partition("?")
    source, _, its = whole.partition(".")
    pairs = parse_qsl(query, keep_blank_values=True)
    names = [key for key, _ in pairs]
    if source not in SOURCES or not its:
        raise UnknownEnvironment(
            environment=name, actual="its source is unknown", expected=f"{' or '.join(SOURCES)} and an id"
        )
    if names != sorted(set(names)) or (query and not pairs):
        expected = "?setting=value&… with each setting once, in the order of their names"
        raise UnknownEnvironment(environment=name, actual=f"its settings are {query!r}", expected=expected)
    return EpisodeName(source, its, {key: _value(text) for key, text in pairs})


def _value(text: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text)
    except ValueError:
        return text
    return found
