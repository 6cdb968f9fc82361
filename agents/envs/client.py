"""Speaking to an environment's admin surface: every answer is checked, every failure has a name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import pairwise
from types import TracebackType
from typing import Final, Self, TypeVar

import httpx2
from pydantic import ValidationError

from .contract import ADMIN_HEADER, INSTANCE_HEADER, Answer, Graded, Health, Instance, Mutation, State, micro_units
from .errors import ContractBroken, EnvironmentDown, EnvironmentRefused, InstanceClosed, UnknownTask

A = TypeVar("A", bound=Answer)
Facts = dict[str, object]
CONNECT_TRIES: Final = 4
FIRST_WAIT_S: Final = 0.05
# Shorter than any site keeps an idle connection, so that a request never meets one that is being closed.
IDLE_S: Final = 4.0
LONGEST_SHOWN: Final = 200


class EnvClient:
    """One environment's admin surface over one pool of connections; may be shared by threads.

    Every method raises EnvironmentDown, EnvironmentRefused or ContractBroken; those that take an instance also
    InstanceClosed, and `oracle` UnknownTask. None of them ever says anything about an agent.
    `extra_headers` go on every call (preview proxies want them).
    """

    def __init__(
        self,
        admin_url: str,
        admin_token: str,
        *,
        timeout_s: float = 10.0,
        extra_headers: Mapping[str, str] | None = None,
        transport: httpx2.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.admin_url = admin_url.rstrip("/")
        self._timeout_s = timeout_s
        self._pause = pause
        try:
            self._pool = httpx2.Client(
                headers={**(extra_headers or {}), ADMIN_HEADER: admin_token},
                timeout=timeout_s,
                limits=httpx2.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=IDLE_S),
                transport=transport,
                trust_env=False,
            )
        except ValueError as problem:
            raise EnvironmentRefused(
                url=self.admin_url, operation="the headers", actual=f"none ({type(problem).__name__} in a header)"
            ) from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close the pool of connections; instances stay open."""
        self._pool.close()

    def health(self) -> Health:
        """Ask whether the site serves, and which tasks it grades."""
        return self._read(Health, "health", self._call("GET", "health"))

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """Mint an instance from a seed, or make the given one anew; ContractBroken if the site took another seed.

        `repeat` is the sibling or repeat index that noise is drawn for; sites without noise ignore it.
        """
        body: dict[str, int | float | str] = {"seed": seed} if repeat == 0 else {"seed": seed, "repeat": repeat}
        facts = self._call("POST", "reset", instance=instance, body=body)
        answer = self._read(Instance, "reset", facts)
        if answer.repeat not in (None, repeat):
            raise self._broken("reset", f"its noise is of index {answer.repeat}", f"the index asked for, {repeat}")
        if answer.seed != seed:
            raise self._broken("reset", f"it was made from seed {answer.seed}", f"the seed that was asked for, {seed}")
        if instance is not None and answer.instance != _id(instance):
            raise self._broken("reset", "another instance was made", "the given instance, made anew")
        return answer

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """Have an instance judged for one task."""
        facts = self._call("GET", "oracle", instance=instance, query={"task_id": task_id})
        try:
            facts["score_micro"] = micro_units(facts.pop("score", None))
        except ValueError as problem:
            raise self._broken("oracle", str(problem), "a score from 0 to 1") from problem
        graded = self._read(Graded, "oracle", facts)
        if graded.task_id != task_id:
            raise self._broken("oracle", f"it judged {graded.task_id!r}", f"a judgement of {task_id!r}")
        return graded

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """Read an instance's changes with ids above `since_id`, oldest first."""
        facts = self._call("GET", "mutations", instance=instance, query={"since": str(since_id)})
        listed = facts.get("mutations")
        if not isinstance(listed, list):
            raise self._broken("mutations", "there is no list of mutations", 'the field "mutations" with a list')
        found = tuple(self._read(Mutation, "mutations", each) for each in listed)
        ids = [since_id, *(mutation.id for mutation in found)]
        if any(later <= earlier for earlier, later in pairwise(ids)):
            raise self._broken("mutations", f"the ids are {ids[1:]}", f"ascending ids above {since_id}")
        return found

    def state(self, instance: Instance | str) -> State:
        """Read what an instance holds, and its fingerprint."""
        return self._read(State, "state", self._call("GET", "state", instance=instance))

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
        body: Mapping[str, int | float | str] | None = None,
    ) -> Facts:
        headers = {} if instance is None else {INSTANCE_HEADER: _id(instance)}
        address = f"{self.admin_url}/__env__/{operation}"
        try:
            request = self._pool.build_request(method, address, params=query, json=body, headers=headers)
            answer = self._send(request)
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as problem:
            raise self._down(operation, f"{type(problem).__name__} {problem}".strip()) from problem
        self._check_status(operation, answer, instance)
        return self._object(operation, answer)

    def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, again after a pause when no connection came about: then the site has seen nothing of it."""
        wait_s = FIRST_WAIT_S
        for _ in range(CONNECT_TRIES - 1):
            try:
                return self._pool.send(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                self._pause(wait_s)
                wait_s *= 2
        return self._pool.send(request)

    def _check_status(self, operation: str, answer: httpx2.Response, instance: Instance | str | None) -> None:
        status = answer.status_code
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise EnvironmentRefused(url=self.admin_url, operation=operation, actual=status)
        if status == HTTPStatus.TOO_MANY_REQUESTS or answer.is_server_error:
            raise self._down(operation, f"status {status}, {_shown(answer)}")
        if status == HTTPStatus.NOT_FOUND:
            self._raise_missing(operation, answer, instance)
        if status != HTTPStatus.OK:
            way = f" to {answer.headers.get('location')}" if answer.is_redirect else ""
            raise self._broken(operation, f"status {status}{way}, {_shown(answer)}", "status 200")

    def _raise_missing(self, operation: str, answer: httpx2.Response, instance: Instance | str | None) -> None:
        facts = self._object(operation, answer)
        code, known = facts.get("code"), facts.get("known")
        if code == "unknown_instance" and instance is not None:
            raise InstanceClosed(url=self.admin_url, actual=_id(instance))
        if code == "unknown_task":
            expected = ", ".join(map(str, known)) if isinstance(known, list) else "a task that health names"
            raise UnknownTask(url=self.admin_url, actual=answer.request.url.params.get("task_id"), expected=expected)

    def _object(self, operation: str, answer: httpx2.Response) -> Facts:
        try:
            facts = json.loads(answer.content)
        except (ValueError, RecursionError) as problem:
            raise self._broken(operation, _shown(answer), "JSON") from problem
        if not isinstance(facts, dict):
            raise self._broken(operation, _shown(answer), "an object in JSON")
        return facts

    def _read(self, shape: type[A], operation: str, facts: object) -> A:
        try:
            return shape.model_validate(facts)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or shape.__name__
            raise self._broken(operation, f"{where}: {first['msg']}", f"the shape of {shape.__name__}") from problem

    def _down(self, operation: str, actual: str) -> EnvironmentDown:
        return EnvironmentDown(url=self.admin_url, operation=operation, actual=actual, timeout_s=self._timeout_s)

    def _broken(self, operation: str, actual: str, expected: str) -> ContractBroken:
        return ContractBroken(url=self.admin_url, operation=operation, actual=actual, expected=expected)


def _id(instance: Instance | str) -> str:
    return instance if isinstance(instance, str) else instance.instance


def _shown(answer: httpx2.Response) -> str:
    return repr(answer.text[:LONGEST_SHOWN])
