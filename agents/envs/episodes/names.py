"""Names of environments that are no web sites: a source, an id, and settings, which say everything about the instances.

`reasoning-gym.chain_sum.max_digits-1.max_terms-2` is the data set `chain_sum` with these two settings;
`gymnasium.minigrid.MiniGrid-DoorKey-5x5-v0` is what `gymnasium.make("minigrid:MiniGrid-DoorKey-5x5-v0")` makes.
Settings stand in the order of their names, so that equal environments have equal names. Names hold letters, digits and
`.`, `_`, `-`, as those of sweeps and runs do; in an id of Gymnasium `--` stands for `/`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from .errors import UnknownEnvironment

SOURCES: Final = ("reasoning-gym", "gymnasium", "openenv")
_SETTINGS: Final = r"(?P<settings>(?:\.[a-z]\w*-[\w-]+)*)"
_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    "reasoning-gym": re.compile(r"(?P<id>[a-z]\w*)" + _SETTINGS),
    "gymnasium": re.compile(r"(?:(?P<module>\w+(?:\.\w+)*)\.)?(?P<id>\w+(?:--?\w+)*?-v\d+)" + _SETTINGS),
    "openenv": re.compile(r"(?P<id>[\w.-]+)(?P<settings>)"),
}
_EXPECTED: Final = "reasoning-gym.SET, gymnasium.[MODULE.]ID-vN or openenv.NAME, then .setting-value in order of names"


@dataclass(frozen=True, slots=True)
class EpisodeName:
    """A name in parts. `module` is imported before Gymnasium makes the id; None elsewhere and without one."""

    source: str
    id: str
    settings: Mapping[str, JsonValue]
    module: str | None = None


def is_episode_name(name: str) -> bool:
    """True if a name begins with one of the sources."""
    return name.partition(".")[0] in SOURCES


def parse_episode_name(name: str) -> EpisodeName:
    """The parts of a name. Raises UnknownEnvironment if it has none of the sources, or settings out of order."""
    source, _, its = name.partition(".")
    found = _PATTERNS[source].fullmatch(its) if source in SOURCES else None
    if found is None or "__" in name:
        raise UnknownEnvironment(environment=name, actual="its name cannot be read", expected=_EXPECTED)
    pairs = [each.partition("-")[::2] for each in found["settings"].split(".") if each]
    names = [key for key, _ in pairs]
    if names != sorted(set(names)):
        expected = "each setting once, in the order of their names"
        raise UnknownEnvironment(environment=name, actual=f"its settings are {', '.join(names)}", expected=expected)
    return EpisodeName(
        source,
        found["id"].replace("--", "/"),
        {key: _value(text) for key, text in pairs},
        found.groupdict().get("module"),
    )


def _value(text: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found
