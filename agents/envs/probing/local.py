"""Probe targets: one of our sites in its own process, or a site that runs elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from ..addresses import without_secrets
from ..clients.client import EnvClient
from ..clients.session import Session
from ..connect import connect
from ..contract import TaskText
from ..environment import Environment
from ..foreign.dialect import Dialect
from ..pool import PooledSite
from ..provider import Site, known_sites, local_site
from ..sites.solvers import SOLVERS
from .probes import SEEDS
from .target import Skipped, Solve, Started, Target


def probe_target(
    site: Site,
    client: Environment,
    *,
    seeds: tuple[int, ...] = SEEDS,
    rng_seed: int = 0,
    solve: Solve | None = None,
    dialect: Dialect | None = None,
) -> Target:
    """Describe a running site as a probe target, with a way to kill and restart it if we started it.

    `solve` is a known solution for a site that is not ours. Raises EnvironmentFailure.
    """
    health = client.health()
    is_ours, is_pooled = site.pid is not None, isinstance(client, PooledSite)
    return Target(
        name=health.site,
        environment=client,
        stranger=_no_stranger if is_pooled else lambda token: connect(replace(site, admin_token=token), dialect),
        tasks=health.tasks,
        admin_url=site.admin_url,
        seeds=seeds,
        rng_seed=rng_seed,
        url=None if is_ours else without_secrets(site.admin_url),
        visit=lambda instance: Session(instance.url, headers=client.page_headers),
        headers=client.page_headers,
        solve=solve or _known_solution(health.site, health.tasks),
        start=(lambda: start_site(site.name)) if is_ours else None,
        one_instance=dialect is not None and dialect.one_instance and not is_pooled,
    )


def _no_stranger(_token: str) -> NoReturn:
    raise Skipped("a pool gives each process a token of its own, and nobody else its address")


def _known_solution(name: str, tasks: tuple[TaskText, ...]) -> Solve | None:
    """Our known solution, if the site grades the same tasks as our site of that name."""
    kind = known_sites().get(name)
    return SOLVERS.get(name) if kind is not None and kind.tasks == tasks else None


@contextmanager
def start_site(name: str) -> Iterator[Started]:
    """Start one of our sites in a process that may be killed."""
    with local_site(name) as site, EnvClient(site.admin_url, site.admin_token) as client:
        yield Started(client, lambda: _kill(site))


def _kill(site: Site) -> None:
    if site.pid is not None:
        os.kill(site.pid, signal.SIGKILL)
        # Wait for its death but leave the zombie to `local_site`: from here on, nothing answers.
        os.waitid(os.P_PID, site.pid, os.WEXITED | os.WNOWAIT)
