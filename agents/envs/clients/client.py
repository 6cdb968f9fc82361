"""Client of an environment's admin surface: every answer is checked, every kind of failure has its own error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import pairwise
from urllib.parse import urlsplit

import httpx2

from ..contract import INSTANCE_HEADER, Graded, Health, Instance, InstanceState, Mutation, SiteInstance, micro_units
from ..environment import Connected, instance_id
from ..errors import InstanceClosed, TaskNotGraded
from .wire import Body, Facts, Wire


class EnvClient(Connected):
    """Client of one environment's admin surface, with one connection pool; threads may share it.

    Every method raises EnvironmentDown, EnvironmentRefused or ContractBroken; those that take an instance also
    InstanceClosed, and `oracle` TaskNotGraded. None of these errors says anything about an agent.
    `extra_headers` are sent with every call (preview proxies need them); `page_headers` are only stored here, for the
    agent's page requests. `page_url` is where agents reach the pages, if it differs from the address that the site
    reports.
    """

    def __init__(
        self,
        admin_url: str,
        admin_token: str,
        *,
        timeout_s: float = 10.0,
        extra_headers: Mapping[str, str] | None = None,
        page_headers: Mapping[str, str] | None = None,
        page_url: str | None = None,
        transport: httpx2.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._wire = Wire(
            admin_url, admin_token, timeout_s=timeout_s, extra_headers=extra_headers, transport=transport, pause=pause
        )
        self.admin_url = self._wire.url
        self.page_headers: Mapping[str, str] = dict(page_headers or {})
        self.has_record = True
        self._page_url = None if page_url is None else page_url.rstrip("/")

    def disconnect(self) -> None:
        """Close the pool of connections; instances stay open."""
        self._wire.close()

    def health(self) -> Health:
        """Ask whether the site serves, and which tasks it grades."""
        return self._wire.read(Health, "health", self._call("GET", "health"))

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """Make an instance from a seed, or restart the given one. Raises ContractBroken if the site took another seed.

        `repeat` is the sibling or repeat index that noise is drawn for; sites without noise ignore it.
        """
        body: dict[str, int | float | str] = {"seed": seed} if repeat == 0 else {"seed": seed, "repeat": repeat}
        facts = self._call("POST", "reset", instance=instance, body=body)
        answer = self._wire.read(SiteInstance, "reset", facts)
        if answer.repeat not in (None, repeat):
            raise self._wire.contract_error(
                "reset", f"its noise is of index {answer.repeat}", f"the index asked for, {repeat}"
            )
        if answer.seed != seed:
            raise self._wire.contract_error(
                "reset", f"it was made from seed {answer.seed}", f"the seed that was asked for, {seed}"
            )
        if instance is not None and answer.instance != instance_id(instance):
            raise self._wire.contract_error("reset", "another instance was made", "the given instance, made anew")
        if self._page_url is None:
            return answer
        return answer.model_copy(update={"address": f"{self._page_url}{urlsplit(answer.url).path}"})

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """Grade an instance for one task."""
        facts = self._call("GET", "oracle", instance=instance, query={"task_id": task_id})
        try:
            facts["score_micro"] = micro_units(facts.pop("score", None))
        except ValueError as problem:
            raise self._wire.contract_error("oracle", str(problem), "a score from 0 to 1") from problem
        graded = self._wire.read(Graded, "oracle", facts)
        if graded.task_id != task_id:
            raise self._wire.contract_error("oracle", f"it graded {graded.task_id!r}", f"a grade of {task_id!r}")
        return graded

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """Read an instance's changes with ids above `since_id`, oldest first."""
        facts = self._call("GET", "mutations", instance=instance, query={"since": str(since_id)})
        listed = facts.get("mutations")
        if not isinstance(listed, list):
            raise self._wire.contract_error(
                "mutations", "there is no list of mutations", 'the field "mutations" with a list'
            )
        found = tuple(self._wire.read(Mutation, "mutations", each) for each in listed)
        ids = [since_id, *(mutation.id for mutation in found)]
        if any(later <= earlier for earlier, later in pairwise(ids)):
            raise self._wire.contract_error("mutations", f"the ids are {ids[1:]}", f"ascending ids above {since_id}")
        return found

    def state(self, instance: Instance | str) -> InstanceState:
        """Read an instance's state and fingerprint."""
        return self._wire.read(InstanceState, "state", self._call("GET", "state", instance=instance))

    def expose(self, instance: Instance | str, *, latency_ms: str = "0-0", failure_rate: float = 0.0) -> None:
        """Make an instance's pages slow (`20-80` ms) and failing (503, a rate from 0 to 1) until its next reset."""
        body: dict[str, int | float | str] = {"latency_ms": latency_ms, "failure_rate": failure_rate}
        self._call("POST", "conditions", instance=instance, body=body)

    def close(self, instance: Instance | str) -> None:
        """Close an instance; its pages are gone afterwards."""
        self._call("POST", "close", instance=instance)

    def _call(
        self,
        method: str,
        operation: str,
        *,
        instance: Instance | str | None = None,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
    ) -> Facts:
        headers = {} if instance is None else {INSTANCE_HEADER: instance_id(instance)}
        answer = self._wire.ask(method, f"/__env__/{operation}", operation, query=query, body=body, headers=headers)
        self._wire.check_open(operation, answer)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            self._raise_missing(operation, answer, instance)
        self._wire.check_ok(operation, answer)
        return self._wire.facts(operation, answer)

    def _raise_missing(self, operation: str, answer: httpx2.Response, instance: Instance | str | None) -> None:
        facts = self._wire.facts(operation, answer)
        code, known = facts.get("code"), facts.get("known")
        if code == "unknown_instance" and instance is not None:
            raise InstanceClosed(url=self.admin_url, actual=instance_id(instance))
        if code == "unknown_task":
            expected = ", ".join(map(str, known)) if isinstance(known, list) else "a task that health names"
            raise TaskNotGraded(url=self.admin_url, actual=answer.request.url.params.get("task_id"), expected=expected)
