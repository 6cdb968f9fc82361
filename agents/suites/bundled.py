"""The suite files that are shipped beside their environments, read by the reader of every suite file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from eventlog.events import Suite, SuiteTask

from .. import envs
from ..envs.episodes.names import is_episode_name
from .suite_file import read_suite

_FILE: Final = "suite.toml"


@lru_cache(maxsize=1)
def bundled_suites() -> Mapping[str, Suite]:
    """The shipped suites by name. Raises BadSuite."""
    files = (found for folder in envs.__path__ for found in sorted(Path(folder).rglob(_FILE)))
    return {suite.name: suite for suite in map(read_suite, files)}


def bundled_for(environment: str) -> Suite | None:
    """The shipped suite that serves an environment, or the only task of one whose name says all.

    None if there is none.
    """
    found = next((suite for suite in bundled_suites().values() if suite.serves(environment)), None)
    if found is None and is_episode_name(environment):
        return Suite(name=environment, environment=environment, tasks=(SuiteTask(id=environment),))
    return found
