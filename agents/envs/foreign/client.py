"""Client for a foreign site: seeds it, verifies the seed by its state, and reads its answers by its dialect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import httpx2
from pydantic import ValidationError

from ..clients.wire import Body, Facts, Wire
from ..contract import LARGEST_SEED, Graded, Health, Instance, InstanceState, Mutation, SiteInstance
from ..environment import Connected, instance_id
from ..errors import InstanceClosed, NotSeedable, SeedLost, TaskNotGraded
from .answers import counts_of, graded_facts, is_unknown_task, mutations_of, state_fingerprint
from .dialect import Dialect

ABSENT: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


class ForeignClient(Connected):
    """Environment over a site that speaks a dialect; the default dialect is tolerant.

    Seeds are verified: after each reset the site's state is read and digested. The same seed must give the same state
    again (SeedLost), and another seed another state (NotSeedable); the first reset seeds twice to check that.
    On a single-instance site the instance id is made up here, and only the newest instance is open; clients that share
    such a site take a lease (`agents/envs/leases.py`). Raises subclasses of EnvironmentFailure, as `EnvClient` does.
    """

    def __init__(
        self,
        admin_url: str,
        admin_token: str,
        dialect: Dialect | None = None,
        *,
        timeout_s: float = 30.0,
        extra_headers: Mapping[str, str] | None = None,
        page_headers: Mapping[str, str] | None = None,
        page_url: str | None = None,
        transport: httpx2.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.dialect = dialect or Dialect()
        self.page_headers: Mapping[str, str] = {**self.dialect.headers, **(page_headers or {})}
        self._wire = Wire(
            admin_url,
            admin_token,
            admin_header=self.dialect.admin_header,
            timeout_s=timeout_s,
            extra_headers={**self.dialect.headers, **(extra_headers or {})},
            transport=transport,
            pause=pause,
        )
        self.admin_url = self._wire.url
        self.page_url = (self.dialect.page_url or page_url or self.admin_url).rstrip("/")
        # Page requests carry no token, because the pages may belong to somebody else.
        self._pages = Wire(
            self.page_url, None, timeout_s=timeout_s, extra_headers=self.page_headers, transport=transport, pause=pause
        )
        self._turn = threading.Lock()
        self._open: dict[str, int] = {}
        self._made = 0
        self._seen: dict[int, str] = {}
        self._has_seed_call = self.dialect.seeding in ("seed", "either")

    def disconnect(self) -> None:
        """Close the connections; the site keeps its state."""
        self._wire.close()
        self._pages.close()

    @property
    def has_record(self) -> bool:
        """True if the dialect names the site's list of changes."""
        return self.dialect.paths.mutations is not None

    def health(self) -> Health:
        """Health of the site; its tasks come from the dialect, else from the site."""
        facts = self._ask("GET", self.dialect.paths.health, "health")
        if facts.get("ok") is False:
            raise self._wire.down("health", "it reports that it is unhealthy")
        site, tasks = facts.get("site"), facts.get("tasks")
        is_told = isinstance(tasks, list) and all(isinstance(each, dict) for each in tasks)
        named = {
            "site": self.dialect.site or (site if isinstance(site, str) and site else "foreign"),
            "instances": len(self._open),
            "tasks": self.dialect.tasks or (tasks if is_told else ()),
        }
        return self._wire.read(Health, "health", named)

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:  # noqa: ARG002
        """Seed the site and verify it. Raises NotSeedable, SeedLost; `repeat` is ignored, for lack of noise."""
        with self._turn:
            if instance is not None:
                self._check_open(instance)
            if not self._seen and self.dialect.seeding != "none":
                self._forget(self._instance_of_seed(seed + 1 if seed < LARGEST_SEED else seed - 1, None))
            return self._instance_of_seed(seed, instance)

    def assume_open(self, instance: Instance) -> None:
        """Treat an instance that another client made as open, to ask the site about it."""
        self._open[instance.instance] = instance.seed

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """Grade an instance for one task. Raises TaskNotGraded, also if the site reports it as a reason."""
        self._check_open(instance)
        path = self.dialect.paths.oracle
        answer = self._answer("GET", path, "oracle", query={"task_id": task_id}, instance=instance)
        if answer.status_code in self.dialect.unknown_task_status:
            raise self._unknown(task_id)
        self._wire.check_ok("oracle", answer)
        facts = self._wire.facts("oracle", answer)
        if is_unknown_task(facts, self.dialect):
            raise self._unknown(task_id)
        try:
            read = graded_facts(facts, task_id)
        except ValueError as problem:
            raise self._wire.contract_error("oracle", str(problem), "a score from 0 to 1") from problem
        graded = self._wire.read(Graded, "oracle", read)
        if graded.task_id != task_id:
            raise self._wire.contract_error("oracle", f"it graded {graded.task_id!r}", f"a grade of {task_id!r}")
        self._check_open(instance)
        return graded

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """Changes of an instance with ids above `since_id`, oldest first; empty if the site lists none."""
        self._check_open(instance)
        path = self.dialect.paths.mutations
        if path is None:
            return ()
        query = {"since": str(since_id)} if self.dialect.since_filters and since_id else None
        answer = self._answer("GET", path, "mutations", query=query, instance=instance)
        if answer.status_code in ABSENT:
            return ()
        self._wire.check_ok("mutations", answer)
        self._check_open(instance)
        facts = self._wire.facts("mutations", answer)
        try:
            return mutations_of(facts, self.dialect.row, since_id)
        except ValidationError as problem:
            raise self._wire.contract_error("mutations", problem.errors()[0]["msg"], "changes") from problem
        except ValueError as problem:
            raise self._wire.contract_error(
                "mutations", str(problem), "changes under the names of the dialect"
            ) from problem

    def state(self, instance: Instance | str) -> InstanceState:
        """State of an instance; the fingerprint is computed here, without volatile fields."""
        state = self._state(instance_id(instance), self._check_open(instance))
        self._check_open(instance)
        return state

    def close(self, instance: Instance | str) -> None:
        """Close an instance; a single-instance site keeps running, but this client no longer grades that instance."""
        self._check_open(instance)
        self._forget(instance)

    def _instance_of_seed(self, seed: int, instance: Instance | str | None) -> Instance:
        """Seed an instance, verify its state, and register it as open."""
        if self.dialect.one_instance:
            self._open.clear()  # before seeding, so that no pending call takes the new run's answer
        facts = self._sow(seed, instance)
        if self.dialect.one_instance:
            made = self._only(seed, instance)
        else:
            made = self._wire.read(SiteInstance, "reset", {**facts, "seed": seed, "repeat": None})
        held = self._state(made.instance, seed).fingerprint
        before = self._seen.get(seed)
        if before not in (None, held):
            raise SeedLost(url=self.admin_url, operation="reset", seed=seed, actual=held, expected=before)
        twin = next((other for other, same in self._seen.items() if same == held and other != seed), None)
        if twin is not None:
            told = f"the seeds {twin} and {seed} give one state"
            raise NotSeedable(url=self.admin_url, operation="reset", actual=told, expected="a state for each seed")
        self._seen[seed] = held
        self._open[made.instance] = seed
        return made

    def _only(self, seed: int, instance: Instance | str | None) -> Instance:
        """The only instance, under a made-up id."""
        if instance is None:
            self._made += 1
        name = f"only-{self._made}" if instance is None else instance_id(instance)
        return Instance(seed=seed, instance=name, url=f"{self.page_url}/")

    def _sow(self, seed: int, instance: Instance | str | None) -> Facts:
        """Seed the site by the call that its dialect names."""
        paths = self.dialect.paths
        if self.dialect.seeding == "none":
            if seed != self.dialect.only_seed:
                told = f"seed {seed} was asked for"
                expected = f"{self.dialect.only_seed}, which it was started with"
                raise NotSeedable(url=self.admin_url, operation="reset", actual=told, expected=expected)
            return {} if paths.reset is None else self._post(paths.reset, "reset", {}, instance)
        if self._has_seed_call and paths.seed is not None:
            answer = self._answer("POST", paths.seed, "seed", body={"seed": seed}, instance=instance)
            if answer.status_code not in ABSENT:
                return self._check_accepted("seed", answer)
            self._has_seed_call = False
        if paths.reset is None or self.dialect.seeding == "seed":
            told = "it has no call that takes a seed"
            raise NotSeedable(
                url=self.admin_url, operation="reset", actual=told, expected="a seeding call, named by its dialect"
            )
        return self._post(paths.reset, "reset", {"seed": seed}, instance)

    def _post(self, path: str, operation: str, body: Body, instance: Instance | str | None) -> Facts:
        return self._check_accepted(operation, self._answer("POST", path, operation, body=body, instance=instance))

    def _check_accepted(self, operation: str, answer: httpx2.Response) -> Facts:
        """Check that the site accepted a call: its answer is empty, or an object that does not report a failure."""
        if answer.status_code == HTTPStatus.NO_CONTENT:
            return {}
        self._wire.check_ok(operation, answer)
        facts = self._wire.facts(operation, answer)
        if facts.get("ok") is False:
            raise self._wire.contract_error(operation, f"it reported {str(facts)[:200]}", "success")
        return facts

    def _state(self, name: str, seed: int) -> InstanceState:
        facts = self._ask("GET", self.dialect.paths.state, "state", instance=name)
        witnesses = tuple(self._witness(path) for path in self.dialect.witnesses)
        held = state_fingerprint(facts, self.dialect.volatile, witnesses)
        return self._wire.read(InstanceState, "state", {"seed": seed, "counts": counts_of(facts), "fingerprint": held})

    def _witness(self, path: str) -> str:
        answer = self._pages.ask("GET", path, "a witness page")
        self._pages.check_ok("a witness page", answer)
        return answer.text

    def _forget(self, instance: Instance | str) -> None:
        if self.dialect.paths.close is not None:
            self._post(self.dialect.paths.close, "close", {}, instance)
        self._open.pop(instance_id(instance), None)

    def _check_open(self, instance: Instance | str) -> int:
        """Seed of an open instance. Raises InstanceClosed."""
        seed = self._open.get(instance_id(instance))
        if seed is None:
            raise InstanceClosed(url=self.admin_url, actual=instance_id(instance))
        return seed

    def _unknown(self, task_id: str) -> TaskNotGraded:
        known = ", ".join(task.task_id for task in self.dialect.tasks) or "a task of the site"
        return TaskNotGraded(url=self.admin_url, actual=task_id, expected=known)

    def _ask(self, method: str, path: str, operation: str, *, instance: Instance | str | None = None) -> Facts:
        answer = self._answer(method, path, operation, instance=instance)
        self._wire.check_ok(operation, answer)
        return self._wire.facts(operation, answer)

    def _answer(
        self,
        method: str,
        path: str,
        operation: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        instance: Instance | str | None = None,
    ) -> httpx2.Response:
        sent = instance is not None and not self.dialect.one_instance
        headers = {self.dialect.instance_header: instance_id(instance)} if sent and instance is not None else {}
        answer = self._wire.ask(method, path, operation, query=query, body=body, headers=headers)
        self._wire.check_open(operation, answer, refused=self.dialect.refused)
        return answer
