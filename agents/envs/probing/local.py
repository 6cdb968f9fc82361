"""Targets: one of our sites in a process of its own, or a site that runs elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..addresses import without_secrets
from ..clients.client import EnvClient
from ..clients.session import Session
from ..connect import connect
from ..contract import TaskText
from ..environment import Environment
from ..foreign.dialect import Dialect
from ..provider import Site, known_sites, local_site
from ..sites.helpdesk.solve import solve as solve_helpdesk
from ..sites.marketplace.solve import solve as solve_marketplace
from .probes import SEEDS
from .target import Solve, Started, Target

SOLVERS: Final[Mapping[str, Solve]] = MappingProxyType({"helpdesk": solve_helpdesk, "marketplace": solve_marketplace})
"""How the tasks of our sites are done by one who knows the answers."""


def probe_target(
    site: Site,
    client: Environment,
    *,
    seeds: tuple[int, ...] = SEEDS,
    rng_seed: int = 0,
    solve: Solve | None = None,
    dialect: Dialect | None = None,
) -> Target:
    """What is known of a site that serves, and what is ours to kill where we started it.

    `solve` is a known solution of a site that is not ours. Raises EnvironmentFailure.
    """
    health = client.health()
    is_ours = site.pid is not None
    return Target(
        name=health.site,
        environment=client,
        stranger=lambda token: connect(replace(site, admin_token=token), dialect),
        tasks=health.tasks,
        admin_url=site.admin_url,
        seeds=seeds,
        rng_seed=rng_seed,
        url=None if is_ours else without_secrets(site.admin_url),
        visit=lambda instance: Session(instance.url, headers=client.page_headers),
        headers=client.page_headers,
        solve=solve or _known_solution(health.site, health.tasks),
        start=(lambda: start_site(site.name)) if is_ours else None,
    )


def _known_solution(name: str, tasks: tuple[TaskText, ...]) -> Solve | None:
    """Our solution, where the site grades the tasks that ours of that name grades."""
    kind = known_sites().get(name)
    return SOLVERS.get(name) if kind is not None and kind.tasks == tasks else None


@contextmanager
def start_site(name: str) -> Iterator[Started]:
    """One of our sites in a process that may be killed."""
    with local_site(name) as site, EnvClient(site.admin_url, site.admin_token) as client:
        yield Started(client, lambda: _kill(site))


def _kill(site: Site) -> None:
    if site.pid is not None:
        os.kill(site.pid, signal.SIGKILL)
        # Waited for, and left to whoever started it: from here on nothing answers.
        os.waitid(os.P_PID, site.pid, os.WEXITED | os.WNOWAIT)
