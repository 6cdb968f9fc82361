"""Kits: what a family of environments brings that lives in this process and not behind an address.

A folder in `agents/executors/` with a module `kit` and a `KIT` (or several `KITS`) in it is found by itself, so that
nothing else names it. Its environments are named `FAMILY.task`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final

from ..envs.contract import TaskText
from ..envs.environment import Environment
from ..envs.probing.target import Target
from .executor import Executor
from .inspection import Inspectors
from .policy import Opening

_MODULE: Final = "kit.py"


@dataclass(frozen=True, slots=True)
class Inside:
    """An open environment of a kit, its address for reports, and what only its kit can do on it.

    `executors` are those that play on it alone, by name, `opening` gives a policy its surface, `inspect` looks at the
    pages of a policy's failed runs (None: it has none), and `target` describes it for probing, with these seeds and the
    seed of random walks. `is_started` is False if somebody else runs it.
    """

    environment: Environment
    address: str
    executors: Mapping[str, Executor]
    opening: Opening
    target: Callable[[tuple[int, ...], int], Target]
    is_started: bool = True
    inspect: Inspectors | None = None


@dataclass(frozen=True, slots=True)
class Kit:
    """A family of environments. `open_inside` opens one by name, with the path of a Chromium if there is one.

    `executors` are the names of the executors that play on it alone, `walkers` those of them that walk a plan. `tasks`
    gives its environments with their tasks; none where what it needs is not installed. `open_graded` opens one by name,
    with an address if it has one and the threshold of its suite in millionths (None: the kit grades alone and has no
    addresses).
    """

    family: str
    executors: tuple[str, ...]
    open_inside: Callable[[str, Path | None], AbstractContextManager[Inside]]
    tasks: Callable[[], Mapping[str, tuple[TaskText, ...]]]
    open_graded: Callable[[str, str | None, int | None], AbstractContextManager[Inside]] | None = None
    walkers: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def find_kits() -> tuple[Kit, ...]:
    """Every kit, in order of its folder."""
    folders = sorted(file.parent.name for file in Path(__file__).parent.glob(f"*/{_MODULE}"))
    modules = (import_module(f"{__package__}.{folder}.kit") for folder in folders)
    return tuple(kit for module in modules for kit in getattr(module, "KITS", None) or (module.KIT,))


def kit_of(environment: str) -> Kit | None:
    """The kit that has an environment of this name; None if it is a site with an address."""
    return next((kit for kit in find_kits() if environment.startswith(f"{kit.family}.")), None)
