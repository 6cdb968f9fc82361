"""A pool of processes of one site, for sites that serve one instance or take their seed only when they start.

Each instance is a process of its own, started from one command line with a free port and the seed, and ended when the
instance is closed. Agents reach its pages through a proxy, so that an admin surface on the same port is out of reach.
"""

from __future__ import annotations

import queue
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from .addresses import shown_in
from .command import READY_WITHIN_S, Command, command_site
from .contract import Graded, Health, Instance, InstanceState, Mutation
from .environment import Connected, instance_id
from .errors import EnvironmentDown, InstanceClosed, NotSeedable, SeedLost, SiteDied, SiteUnhealthy
from .foreign.client import ForeignClient
from .foreign.dialect import Dialect
from .page_proxy import ProxiedPages, proxy_pages

PORT: Final = "{port}"
SEED: Final = "{seed}"
TOKEN_VARIABLE: Final = "ENV_ADMIN_TOKEN"  # noqa: S105 (the name of a variable)
PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class PoolCommand:
    """Command line of a site: `{port}` and `{seed}` in its words are replaced, as in the `variables` given to it.

    The site gets its admin token in the variable `token_variable`.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_variable: str = TOKEN_VARIABLE
    folder: Path | None = None
    ready_within_s: float = READY_WITHIN_S

    def at(self, port: int, seed: int, token: str, health: str) -> Command:
        """The command of one process."""
        words = tuple(_filled(each, port, seed) for each in self.words)
        variables = {name: _filled(each, port, seed) for name, each in self.variables.items()}
        return Command(
            words,
            url=f"http://127.0.0.1:{port}",
            variables={**variables, self.token_variable: token},
            health=health,
            folder=self.folder,
            ready_within_s=self.ready_within_s,
        )


def _filled(text: str, port: int, seed: int) -> str:
    return text.replace(PORT, str(port)).replace(SEED, str(seed))


@dataclass(slots=True)
class _Running:
    """A process with its client, the proxy of its pages, and what ends it."""

    client: ForeignClient
    seed: int
    pages: ProxiedPages
    stack: ExitStack


@contextmanager
def pooled_site(name: str, command: PoolCommand, dialect: Dialect, *, processes: int = 1) -> Iterator[PooledSite]:
    """Environment over at most so many processes of a site at a time; all of them end with the block."""
    paths = [path for path in dialect.paths.model_dump().values() if path is not None]
    with ExitStack() as stack:
        free: queue.Queue[ProxiedPages] = queue.Queue()
        for _ in range(processes):
            free.put(stack.enter_context(proxy_pages(paths, (dialect.admin_header, dialect.instance_header))))
        site = PooledSite(name, command, dialect, free)
        stack.callback(site.disconnect)
        yield site


class PooledSite(Connected):
    """See `pooled_site`. Threads may share it: a reset waits until a process may be started.

    A seed is believed by the site's state: the same one must give the same again (SeedLost), another one another state
    (NotSeedable), as `ForeignClient` checks for a site that takes seeds.
    """

    def __init__(self, name: str, command: PoolCommand, dialect: Dialect, free: queue.Queue[ProxiedPages]) -> None:
        self.name = name
        self.dialect = dialect
        self.page_headers: Mapping[str, str] = dict(dialect.headers)
        self.admin_url = f"pool:{name}"
        self.has_record = dialect.paths.mutations is not None
        self._command = command
        self._free = free
        self._running: dict[str, _Running] = {}
        self._seen: dict[int, str] = {}
        self._lock = Lock()

    def disconnect(self) -> None:
        """End every process."""
        with self._lock:
            running, self._running = self._running, {}
        for each in running.values():
            self._end(each)

    def health(self) -> Health:
        """Health of the site: of an open instance, else of a process that is started for it."""
        with self._lock:
            running = next(iter(self._running.values()), None)
        if running is not None:
            return self._named(running.client.health())
        made = self.reset(0)
        try:
            return self._named(self._of(made).client.health())
        finally:
            self.close(made)

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:  # noqa: ARG002
        """Start a process with this seed; a given instance is started anew at the same address.

        Raises EnvironmentDown, NotSeedable, SeedLost; `repeat` is ignored, for lack of noise.
        """
        if instance is not None:
            before = self._of(instance)
            before.stack.close()
            return self._start(seed, before.pages, instance_id(instance))
        try:
            pages = self._free.get(timeout=PATIENCE_S)
        except queue.Empty as problem:
            raise self._down("reset", "every process of the pool is in use") from problem
        return self._start(seed, pages, f"pool-{secrets.token_hex(8)}")

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """See Environment."""
        return self._of(instance).client.oracle(instance, task_id)

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """See Environment."""
        return self._of(instance).client.mutations(instance, since_id)

    def state(self, instance: Instance | str) -> InstanceState:
        """See Environment."""
        return self._of(instance).client.state(instance)

    def close(self, instance: Instance | str) -> None:
        """End the instance's process; its place in the pool is free then."""
        self._of(instance)
        with self._lock:
            running = self._running.pop(instance_id(instance))
        self._end(running)

    def _start(self, seed: int, pages: ProxiedPages, name: str) -> Instance:
        with ExitStack() as stack:
            stack.callback(self._give_back, name, pages)
            made, client = self._new_process(seed, name, pages, stack)
            running = _Running(client, seed, pages, ExitStack())
            self._check_seed(seed, client.state(made).fingerprint)
            pages.goes_to(client.page_url)
            with self._lock:
                self._running[name] = running
            stack.pop_all().push(running.stack) if False else None
            running.stack = stack.pop_all()
        return made

    def _named(self, health: Health) -> Health:
        return health.model_copy(update={"site": self.dialect.site or self.name, "instances": len(self._running)})
