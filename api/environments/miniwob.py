"""MiniWoB++ for commands: the environment of one task in its own browser tabs, and its target for probing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from agents.envs.contract import Instance
from agents.envs.miniwob.environment import MiniWob
from agents.envs.miniwob.tabs import Tabs, open_tabs
from agents.envs.miniwob.tasks import SITE
from agents.envs.probing.target import Deeds, Skipped, Target
from agents.executors.executor import Assignment
from agents.executors.miniwob.executor import MiniWobScript, MiniWobSurface

_STEPS = 40


def is_miniwob(name: str) -> bool:
    """True if a site's name is a task of MiniWoB++, such as `miniwob.click-button`."""
    return name.startswith(f"{SITE}.")


@contextmanager
def open_task(name: str, chromium: Path | None) -> Iterator[tuple[MiniWob, Tabs]]:
    """Open the environment of a task and its tabs, in a Chromium. Raises UnknownPage, PagesMissing, BrowserMissing."""
    with open_tabs(chromium) as tabs, MiniWob(name, tabs) as environment:
        yield environment, tabs


def miniwob_target(environment: MiniWob, tabs: Tabs, *, seeds: tuple[int, ...], rng_seed: int) -> Target:
    """Target for probing a task, with its script as the known solution. Probes of admin API and HTTP are skipped."""

    def solve(instance: Instance) -> None:
        MiniWobScript(tabs).execute(Assignment("", (), _STEPS), instance)

    def look(instance: Instance) -> None:
        MiniWobSurface(tabs.tab(instance.instance)).text()

    return Target(
        name=environment.name,
        environment=environment,
        stranger=_no_stranger,
        tasks=environment.health().tasks,
        admin_url="",
        seeds=seeds,
        rng_seed=rng_seed,
        visit=_no_visit,
        deeds=Deeds(solve, look),
    )


def _no_stranger(_token: str) -> NoReturn:
    raise Skipped("it has no admin surface: it is asked in this process")


def _no_visit(_instance: Instance) -> NoReturn:
    raise Skipped("its page is used in a browser of ours, not over plain HTTP")
