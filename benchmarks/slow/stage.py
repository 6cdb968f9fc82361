"""Environment of the demonstration: two sites, a log for the warm-up, a log for the loop, and sweeps on both sites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from agents.envs.clients.client import EnvClient
from agents.envs.provider import Site, local_site
from agents.executors.executor import Executor
from agents.rollouts.sweep import SeedSweep
from api.cli.output import TerminalReporter
from api.course import Course
from api.environments.admission import first_admission, see_admission
from api.environments.connect import Placed
from api.house import House, open_house
from api.settings import Settings
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import play_sweep
from benchmarks.log.server import Server
from eventlog.events import Template
from projections.rewards import REWARDS
from projections.runs import RUNS

from .effort import MICRO, TASKS, Effort

RNG_SEED = 7

Outcomes = Mapping[tuple[str, int], float]
"""Share of passed runs, by site and environment seed."""


@dataclass(frozen=True)
class Scene:
    """The sites with their clients and the instruction of their task."""

    sites: Mapping[str, Site]
    clients: Mapping[str, EnvClient]
    instructions: Mapping[str, str]
    effort: Effort

    def course(self) -> Course:
        """Course with as many parallel runs as one model samples in a batch."""
        return Course(max_parallel=self.effort.at_once)

    def admit(self, house: House) -> None:
        """Probe both sites and admit them to a log, like the controller. Raises NotAdmitted."""
        for site, client in self.clients.items():
            placed = Placed(self.sites[site], client)
            see_admission(house, client, site, first_admission(placed, TerminalReporter()))

    def sweep(
        self,
        house: House,
        name: str,
        templates: Mapping[str, Template],
        seeds: Sequence[int],
        executor: Executor,
        *,
        siblings: int = 1,
    ) -> Outcomes:
        """Play the task of each site at each seed, at temperature 1, and return the outcomes.

        A missing run counts as failed.
        """
        for site, client in self.clients.items():
            generator = SeedSweep(f"{name}-{site}", (templates[site],), seeds, siblings, (MICRO,))
            planned = plan(house, house.views(), site, generator, rng_seed=RNG_SEED, learns=False, executor=executor)
            play_sweep(house, client, planned, self.course(), TerminalReporter(), executor)
        return passed(house, name)


def passed(house: House, name: str) -> Outcomes:
    """Outcomes of a sweep, from the log."""
    views = house.views()
    found: dict[tuple[str, int], list[int]] = {}
    for site in TASKS:
        prefix = f"{name}-{site}__"
        rewards = views.find(REWARDS, prefix)
        for run, state in views.find(RUNS, prefix).items():
            is_passed = run in rewards and rewards[run].score == MICRO
            found.setdefault((site, state.env_seed), []).append(is_passed)
    return {instance: sum(runs) / len(runs) for instance, runs in found.items()}


def success(outcomes: Outcomes) -> float:
    """Mean outcome over instances."""
    return sum(outcomes.values()) / len(outcomes)


@contextmanager
def scene(effort: Effort) -> Iterator[Scene]:
    """Start both sites in separate processes."""
    with ExitStack() as stack:
        sites, clients = {}, {}
        for site in TASKS:
            running = sites[site] = stack.enter_context(local_site(site))
            clients[site] = stack.enter_context(EnvClient(running.admin_url, running.admin_token))
        told = {task.task_id: task.instruction for client in clients.values() for task in client.health().tasks}
        yield Scene(sites, clients, {site: told[task] for site, task in TASKS.items()}, effort)


@contextmanager
def log_of(server: Server, project: str, folder: Path) -> Iterator[House]:
    """Open a new project on the server, with the events that a first sweep needs."""
    server.project(project)
    settings = Settings(
        home=folder, project=project, database_url=SecretStr(server.app_url), owner_url=SecretStr(server.owner_url)
    )
    house = open_house(settings)
    try:
        first_facts(house)
        yield house
    finally:
        house.close()
