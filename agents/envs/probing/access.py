"""Probes of access and outages: admin tokens, the pages' address, unknown tasks, and a dead process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import httpx2

from ..contract import Instance
from ..environment import Environment
from ..errors import ContractBroken, EnvironmentDown, EnvironmentFailure, EnvironmentRefused, TaskNotGraded
from ..foreign.client import ForeignClient
from .target import Failed, Skipped, Target

STRANGERS: Final = (("no token", ""), ("a wrong token", "this-is-not-the-admin-token"))
NO_SUCH_TASK: Final = "no.such_task"
ADMIN_CALLS: Final = (
    ("GET", "health"),
    ("GET", "state"),
    ("GET", "oracle"),
    ("GET", "mutations"),
    ("POST", "reset"),
    ("POST", "close"),
)
NOT_THERE: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})


def wrong_token(target: Target) -> str:
    """Check that every admin call except health is refused without the token and changes nothing."""
    count = 0
    with target.new_instance(target.seeds[0]) as instance:
        before = target.environment.state(instance)
        for what, token in STRANGERS:
            with target.stranger(token) as stranger:
                for call, ask in _calls(target, stranger, instance):
                    count += 1
                    if not _is_refused(ask):
                        raise Failed(f"{call} is answered with {what}")
        if target.environment.state(instance) != before:
            raise Failed("a call that was refused changed the instance")
    return f"{count} calls without the token were refused"


def _calls(target: Target, stranger: Environment, instance: Instance) -> Iterator[tuple[str, Callable[[], object]]]:
    seed, task = target.seeds[0], target.tasks[0].task_id
    is_closable = not isinstance(stranger, ForeignClient) or stranger.dialect.paths.close is not None
    is_recorded = not isinstance(stranger, ForeignClient) or target.environment.has_record
    calls: dict[str, Callable[[], object]] = {
        "a first reset": lambda: stranger.reset(seed),
        "reset": lambda: stranger.reset(seed, instance=instance),
        "oracle": lambda: stranger.oracle(instance, task),
        **({"mutations": lambda: stranger.mutations(instance)} if is_recorded else {}),
        "state": lambda: stranger.state(instance),
        **({"close": lambda: stranger.close(instance)} if is_closable else {}),
    }
    for call, ask in calls.items():
        if isinstance(stranger, ForeignClient):
            stranger.assume_open(instance)
        yield call, ask


def _is_refused(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except EnvironmentRefused:
        return True
    return False


def pages_port(target: Target) -> str:
    """Check that the pages' address has no admin surface."""
    with target.new_instance(target.seeds[0]) as instance:
        if instance.address is None:
            raise Skipped("it has no pages")
        origin = _origin(instance.url)
        if origin == _origin(target.admin_url):
            raise Skipped(
                "one address serves pages and admin surface: only the token keeps an agent from grading itself"
            )
        with httpx2.Client(headers=dict(target.headers), trust_env=False) as web:
            for root in (f"{origin}/", instance.url):
                for method, call in ADMIN_CALLS:
                    status = _status(web, method, f"{root}__env__/{call}")
                    if status not in NOT_THERE:
                        raise Failed(f"the pages' address answers {method} /__env__/{call} with status {status}")
    return "the pages' address has no admin surface"


def _status(web: httpx2.Client, method: str, address: str) -> int:
    try:
        return web.request(method, address).status_code
    except httpx2.HTTPError as problem:
        raise Failed(f"the pages' address does not answer: {type(problem).__name__}") from problem


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def unknown_task(target: Target) -> str:
    """Check that an unknown task is refused and gets no score."""
    with target.new_instance(target.seeds[0]) as instance:
        for task_id in (NO_SUCH_TASK, f"{target.tasks[0].task_id}x"):
            try:
                graded = target.environment.oracle(instance, task_id)
            except (TaskNotGraded, ContractBroken):
                continue
            raise Failed(f"a task that there is not was given the score {graded.score_micro}")
    return "a task that there is not gets no score"


def killed_process(target: Target) -> str:
    """Check that a dead process raises EnvironmentDown, and that a fresh process makes the same instance."""
    if target.start is None:
        raise Skipped("its process is not ours to kill")
    seed, task = target.seeds[0], target.tasks[0].task_id
    with target.start() as started:
        env = started.environment
        instance = env.reset(seed)
        before = env.state(instance).fingerprint
        with target.visit(instance) as session:
            session.open("/")
            started.kill()
            _expect_down("a page", lambda: session.open("/"))
        _expect_down("the oracle", lambda: env.oracle(instance, task))
    with target.start() as started:
        after = started.environment.state(started.environment.reset(seed)).fingerprint
    if after != before:
        raise Failed(f"a fresh process makes another instance of seed {seed}")
    return "a killed process is down, not a score of zero; a fresh one makes the same instance"


def _expect_down(what: str, ask: Callable[[], object]) -> None:
    try:
        ask()
    except EnvironmentDown:
        return
    except EnvironmentFailure as problem:
        raise Failed(
            f"after the process was killed {what} is {type(problem).__name__}, not EnvironmentDown"
        ) from problem
    raise Failed(f"after the process was killed {what} still answers")
