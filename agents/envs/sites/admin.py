"""Admin surface of a simulated site, on a separate port: reset, oracle, mutations, state, conditions, close.

It serves any site whose instances are `Simulation`s; `docs/environments.md` is its contract.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeGuard, TypeVar

from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..contract import ADMIN_HEADER, INSTANCE_HEADER, LARGEST_SEED, TaskText
from .conditions import Conditions, read_conditions
from .instances import Instances
from .requests import body_of
from .site import Simulation

S = TypeVar("S", bound=Simulation)
Answering = Callable[[Request], Awaitable[dict[str, JsonValue]]]
LONGEST_NUMBER: Final = 15


class Refusal(Exception):
    """Error answer to a request: its status, a code for programs, a sentence for people, and more facts."""

    def __init__(self, status: int, code: str, error: str, **more: JsonValue) -> None:
        super().__init__(error)
        self.status = status
        self.body: dict[str, JsonValue] = {"error": error, "code": code, **more}


def admin_app(
    *, site: str, tasks: tuple[TaskText, ...], instances: Instances[S], page_base: str, token: str
) -> Starlette:
    """Build the admin app for a site's instances; page_base is the address at which agents reach the pages."""
    surface = _Surface(site, tasks, instances, page_base, token)
    return Starlette(
        routes=[
            Route("/__env__/health", _handler(surface.health), methods=["GET"]),
            Route("/__env__/reset", _handler(surface.reset), methods=["POST"]),
            Route("/__env__/oracle", _handler(surface.oracle), methods=["GET"]),
            Route("/__env__/mutations", _handler(surface.mutations), methods=["GET"]),
            Route("/__env__/state", _handler(surface.state), methods=["GET"]),
            Route("/__env__/conditions", _handler(surface.conditions), methods=["GET"]),
            Route("/__env__/conditions", _handler(surface.expose), methods=["POST"]),
            Route("/__env__/close", _handler(surface.close), methods=["POST"]),
        ],
        exception_handlers={HTTPException: _no_such_endpoint},
    )


class _Surface(Generic[S]):
    def __init__(
        self, site: str, tasks: tuple[TaskText, ...], instances: Instances[S], page_base: str, token: str
    ) -> None:
        self._site = site
        self._tasks = tasks
        self._task_ids = sorted(task.task_id for task in tasks)
        self._instances = instances
        self._page_base = page_base.rstrip("/")
        self._token = token.encode()

    async def health(self, _request: Request) -> dict[str, JsonValue]:
        tasks: list[JsonValue] = [task.model_dump(mode="json") for task in self._tasks]
        return {"ok": True, "site": self._site, "instances": len(self._instances), "tasks": tasks}

    async def reset(self, request: Request) -> dict[str, JsonValue]:
        self._authorize(request)
        body = await _json_of(request, '{"seed": <integer>}')
        seed, repeat = _seed_in(body), _repeat_in(body)
        if INSTANCE_HEADER in request.headers:
            instance, _ = self._instance(request)
            self._instances.restart(instance, seed, repeat)
        else:
            instance = self._instances.mint(seed, repeat)
        url = f"{self._page_base}/i/{instance}/"
        return {"ok": True, "seed": seed, "repeat": repeat, "instance": instance, "url": url}

    async def oracle(self, request: Request) -> dict[str, JsonValue]:
        self._authorize(request)
        _, state = self._instance(request)
        task_id = request.query_params.get("task_id")
        if not task_id:
            raise Refusal(
                422, "task_missing", "the query has no task_id: expected one of the known ones", **self._describe_site()
            )
        if task_id not in self._task_ids:
            raise Refusal(
                404, "unknown_task", "this site grades no such task: expected a known one", **self._describe_site()
            )
        grade = state.grade(task_id)
        return {
            "task_id": task_id,
            "passed": grade.passed,
            "score": grade.score_e4 / 10_000,
            "reasons": list(grade.reasons),
            "diff": dict(grade.diff),
        }

    async def mutations(self, request: Request) -> dict[str, JsonValue]:
        self._authorize(request)
        _, state = self._instance(request)
        since = _since_in(request.query_params.get("since", "0"))
        return {"mutations": [each.model_dump(mode="json") for each in state.mutations if each.id > since]}

    async def state(self, request: Request) -> dict[str, JsonValue]:
        self._authorize(request)
        _, state = self._instance(request)
        return {
            "site": self._site,
            "seed": state.seed,
            "counts": dict(state.counts()),
            "fingerprint": state.fingerprint(),
        }

    async def conditions(self, request: Request) -> dict[str, JsonValue]:
        self._authorize(request)
        instance, _ = self._instance(request)
        return _describe_instance(instance, self._instances.conditions(instance))

    async def expose(self, request: Request) -> dict[str, JsonValue]:
        self._authorize(request)
        instance, _ = self._instance(request)
        conditions = _conditions_in(await _json_of(request, '{"latency_ms": "20-80", "failure_rate": 0.1}'))
        self._instances.expose(instance, conditions)
        return _describe_instance(instance, conditions)

    async def close(self, request: Request) -> dict[str, JsonValue]:
        self._authorize(request)
        instance, _ = self._instance(request)
        self._instances.close(instance)
        return {"ok": True, "instance": instance}

    def _authorize(self, request: Request) -> None:
        if not hmac.compare_digest(request.headers.get(ADMIN_HEADER, "").encode(), self._token):
            raise Refusal(401, "unauthorized", f"the header {ADMIN_HEADER} does not carry this site's admin token")

    def _instance(self, request: Request) -> tuple[str, S]:
        instance = request.headers.get(INSTANCE_HEADER)
        if not instance:
            raise Refusal(
                422, "instance_missing", f"the header {INSTANCE_HEADER} is missing: expected an instance's id"
            )
        state = self._instances.find(instance)
        if state is None:
            raise Refusal(404, "unknown_instance", "no instance of that id is open: reset to get one")
        return instance, state

    def _describe_site(self) -> dict[str, JsonValue]:
        return {"known": list(self._task_ids)}


def _handler(answer: Answering) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        try:
            return JSONResponse(await answer(request))
        except Refusal as refusal:
            return JSONResponse(refusal.body, refusal.status)

    return respond


async def _no_such_endpoint(_request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    return JSONResponse({"error": "this site has no such endpoint", "code": "no_endpoint"}, status)


async def _json_of(request: Request, expected: str) -> object:
    try:
        return json.loads(await body_of(request))
    except (ValueError, RecursionError) as problem:
        raise Refusal(422, "bad_body", f"the body cannot be read: expected {expected} in JSON") from problem


def _seed_in(body: object) -> int:
    seed = body.get("seed") if isinstance(body, dict) else None
    if not _is_index(seed):
        raise Refusal(422, "bad_seed", f'expected {{"seed": <integer>}} in JSON, from 0 to {LARGEST_SEED}')
    return seed


def _repeat_in(body: object) -> int:
    repeat = body.get("repeat", 0) if isinstance(body, dict) else 0
    if not _is_index(repeat):
        raise Refusal(422, "bad_repeat", f"repeat is a sibling or repeat index: expected 0 to {LARGEST_SEED}")
    return repeat


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_SEED


def _conditions_in(body: object) -> Conditions:
    known = {"latency_ms", "failure_rate"}
    if not isinstance(body, dict) or not body.keys() <= known:
        raise Refusal(422, "bad_conditions", f"expected an object with {' and '.join(sorted(known))}")
    latency, rate = body.get("latency_ms"), body.get("failure_rate")
    if not isinstance(latency, str | None):
        raise Refusal(422, "bad_conditions", f'the latency is {latency!r}: expected A-B in ms, such as "20-80"')
    try:
        return read_conditions(latency, rate)
    except ValueError as problem:
        raise Refusal(422, "bad_conditions", str(problem)) from problem


def _describe_instance(instance: str, conditions: Conditions) -> dict[str, JsonValue]:
    return {
        "ok": True,
        "instance": instance,
        "latency_ms": conditions.latency,
        "failure_rate": conditions.failure_rate,
    }


def _since_in(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise Refusal(422, "bad_since", "since is not a mutation's id: expected 0 or a positive integer")
    return int(text)
