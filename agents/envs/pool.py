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
        words = tuple(_fill_in(each, port, seed) for each in self.words)
        variables = {name: _fill_in(each, port, seed) for name, each in self.variables.items()}
        return Command(
            words,
            url=f"http://127.0.0.1:{port}",
            variables={**variables, self.token_variable: token},
            health=health,
            folder=self.folder,
            ready_within_s=self.ready_within_s,
        )


def _fill_in(text: str, port: int, seed: int) -> str:
    return text.replace(PORT, str(port)).replace(SEED, str(seed))


@dataclass(frozen=True, slots=True)
class _Running:
    """A process with its client, its only instance, the proxy of its pages, and what ends it."""

    client: ForeignClient
    made: Instance
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
            each.stack.close()
            self._free.put(each.pages)

    def health(self) -> Health:
        """Health of the site: of an open instance, else of a process that is started for it."""
        with self._lock:
            running = next(iter(self._running.values()), None)
        if running is not None:
            return self._with_name(running.client.health())
        made = self.reset(0)
        try:
            return self._with_name(self._of(made).client.health())
        finally:
            self.close(made)

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:  # noqa: ARG002
        """Start a process with this seed; a given instance is started anew at the same address.

        Raises EnvironmentDown, NotSeedable, SeedLost; `repeat` is ignored, for lack of noise.
        """
        if instance is None:
            try:
                pages, name = self._free.get(timeout=PATIENCE_S), f"pool-{secrets.token_hex(8)}"
            except queue.Empty as problem:
                raise self._down("reset", "every process of the pool is in use") from problem
        else:
            name, pages = instance_id(instance), self._take_out(instance)
        try:
            return self._start(seed, pages, name)
        except BaseException:
            self._free.put(pages)
            raise

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """See Environment."""
        running = self._of(instance)
        return running.client.oracle(running.made, task_id)

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """See Environment."""
        running = self._of(instance)
        return running.client.mutations(running.made, since_id)

    def state(self, instance: Instance | str) -> InstanceState:
        """See Environment."""
        running = self._of(instance)
        return running.client.state(running.made)

    def close(self, instance: Instance | str) -> None:
        """End the instance's process; its place in the pool is free then."""
        running = self._remove(instance)
        try:
            running.stack.close()
        finally:
            self._free.put(running.pages)

    def _take_out(self, instance: Instance | str) -> ProxiedPages:
        """End the process of an instance. Returns the proxy that was before it."""
        running = self._remove(instance)
        running.stack.close()
        return running.pages

    def _remove(self, instance: Instance | str) -> _Running:
        """The process of an instance, which no other caller gets. Raises what `_of` does."""
        with self._lock:
            running = self._running.pop(instance_id(instance), None)
        if running is None:
            raise InstanceClosed(url=self.admin_url, actual=instance_id(instance))
        return running

    def _start(self, seed: int, pages: ProxiedPages, name: str) -> Instance:
        """Start a process, check its seed, and open its pages to the agent. On failure its place is free again."""
        with ExitStack() as stack:
            stack.callback(pages.goes_to, None)
            client = stack.enter_context(self._process(seed))
            made = client.reset(seed)
            self._check_seed(seed, client.state(made).fingerprint)
            pages.goes_to(client.page_url)
            running = _Running(client, made, pages, stack.pop_all())
        with self._lock:
            self._running[name] = running
        return Instance(seed=seed, instance=name, url=f"{pages.url}/")

    @contextmanager
    def _process(self, seed: int) -> Iterator[ForeignClient]:
        """A client of a new process of this seed."""
        token, port = secrets.token_hex(16), _free_port()
        command = self._command.at(port, seed, token, self.dialect.paths.health)
        no_calls = {**self.dialect.paths.model_dump(), "reset": None, "seed": None, "close": None}
        spoken = {**self.dialect.model_dump(), "seeding": "none", "only_seed": seed, "page_url": None}
        dialect = Dialect.model_validate({**spoken, "paths": no_calls})
        try:
            with (
                command_site(self.name, command, token) as site,
                ForeignClient(site.admin_url, token, dialect, page_url=site.url) as client,
            ):
                yield client
        except (SiteDied, SiteUnhealthy) as problem:
            raise self._down("its start", str(problem)) from problem

    def _check_seed(self, seed: int, held: str) -> None:
        with self._lock:
            before = self._seen.setdefault(seed, held)
            twin = next((other for other, same in self._seen.items() if same == held and other != seed), None)
        if before != held:
            raise SeedLost(url=self.admin_url, operation="reset", seed=seed, actual=held, expected=before)
        if twin is not None:
            told = f"the seeds {twin} and {seed} give one state"
            raise NotSeedable(url=self.admin_url, operation="reset", actual=told, expected="a state for each seed")

    def _of(self, instance: Instance | str) -> _Running:
        with self._lock:
            running = self._running.get(instance_id(instance))
        if running is None:
            raise InstanceClosed(url=self.admin_url, actual=instance_id(instance))
        return running

    def _with_name(self, health: Health) -> Health:
        return health.model_copy(update={"site": self.dialect.site or self.name, "instances": len(self._running)})

    def _down(self, operation: str, actual: str) -> EnvironmentDown:
        timeout_s = self._command.ready_within_s
        return EnvironmentDown(url=self.admin_url, operation=operation, actual=actual, timeout_s=timeout_s)


def _free_port() -> int:
    """A port that was free a moment ago; the site is told to serve there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
