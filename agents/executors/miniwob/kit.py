"""The kit of MiniWoB++: one task is an environment in its own browser tabs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from ...envs.contract import Instance, TaskText
from ...envs.miniwob.environment import MiniWob
from ...envs.miniwob.served import is_installed
from ...envs.miniwob.tabs import Tabs, open_tabs
from ...envs.miniwob.tasks import SITE, TASKS
from ...envs.probing.target import Deeds, Skipped, Target
from ..executor import Assignment
from ..kits import Inside, Kit
from . import executor, plan
from .executor import MiniWobScript, MiniWobSurface, on_miniwob
from .inspection import miniwob_inspectors
from .plan import MiniWobPlan

_STEPS: Final = 40


@contextmanager
def open_task(name: str, chromium: Path | None) -> Iterator[Inside]:
    """Open the environment of a task in a Chromium. Raises UnknownPage, PagesMissing, BrowserMissing."""
    with open_tabs(chromium) as tabs, open_in_tabs(name, tabs) as inside:
        yield inside


@contextmanager
def open_in_tabs(name: str, tabs: Tabs) -> Iterator[Inside]:
    """Open the environment of a task in a Chromium that is open. Raises UnknownPage."""
    with MiniWob(name, tabs) as environment:
        yield Inside(
            environment=environment,
            address=tabs.origin,
            executors={executor.NAME: MiniWobScript(tabs), plan.NAME: MiniWobPlan(tabs)},
            opening=on_miniwob(tabs),
            inspect=miniwob_inspectors(tabs, has_slots=False),
            target=lambda seeds, rng_seed: task_target(environment, tabs, seeds=seeds, rng_seed=rng_seed),
        )


def task_target(environment: MiniWob, tabs: Tabs, *, seeds: tuple[int, ...], rng_seed: int) -> Target:
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


def installed_tasks() -> Mapping[str, tuple[TaskText, ...]]:
    """Each environment with its task; none where the pages are not installed."""
    return {task.task_id: (task.task_text(),) for task in TASKS.values()} if is_installed() else {}


def _no_stranger(_token: str) -> NoReturn:
    raise Skipped("it has no admin surface: it is asked in this process")


def _no_visit(_instance: Instance) -> NoReturn:
    raise Skipped("its page is used in a browser of ours, not over plain HTTP")


KIT: Final = Kit(SITE, (executor.NAME, plan.NAME), open_task, installed_tasks, walkers=(plan.NAME,))
