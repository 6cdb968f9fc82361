"""Runs of your own agents: begun, told step by step, ended and rewarded."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from threading import Lock
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, cast

from .connection import Connection
from .records import MICRO

OUTSIDE: Final = "ext-"
"""Names of runs and groups from outside begin so; the client adds it where it lacks."""

ENVIRONMENT: Final = "outside"
NAME_MOST: Final = 200
NO_STATE: Final = "0" * 64
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"

P = ParamSpec("P")
T = TypeVar("T")

current_run: ContextVar[ActiveRun | None] = ContextVar("flywheel_run", default=None)
"""The run that the code is in; steps of traced functions belong to it."""


@dataclass(eq=False)
class ActiveRun:
    """A run while it goes on. Every step is in the log when the call that told it returns.

    As a context it ends with its block: `completed`, or `halted` where the block raised.
    """

    connection: Connection
    task: str
    run: str
    group: str
    environment: str = ENVIRONMENT
    steps: int = 0
    _score: tuple[int, bool] | None = None
    _began: float = field(default_factory=time.monotonic)
    _entered: Token[ActiveRun | None] | None = None
    _lock: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        """Begin the run. Raises ApiError, Unreachable."""
        nothing = self.put(b"[]", _JSON)
        self._append("start", start_event(self.run, self.group, self.task, self.environment, nothing))
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        """Begin the run. Raises ApiError, Unreachable."""
        self.begin()
        self._entered = current_run.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _t: TracebackType | None) -> None:
        """End the run, and send its reward if it has one. Raises ApiError, Unreachable."""
        if self._entered is not None:
            current_run.reset(self._entered)
            self._entered = None
        self.finish("completed" if kind is None else "halted")

    def step(
        self, intent: str, *, action: str = "act", argument: Any = None, observation: Any = None, outcome: str = "ok"
    ) -> None:
        """Tell one step: what was wanted, the action, what it was given, what was seen then.

        `argument` and `observation` are texts, bytes or JSON, kept as blobs; `outcome` is `ok` or one of the failures
        of docs/rest.md. Raises ApiError, Unreachable.
        """
        event = {
            "type": "StepTaken",
            "run": self.run,
            "action": action_name(action),
            "argument": self._put_value(argument),
            "intent": intent,
            "outcome": outcome,
            "http_status": None,
            "observation": self._put_value(observation),
        }
        with self._lock:  # threads may tell steps of one run
            self._append(f"step-{self.steps}", {**event, "index": self.steps})
            self.steps += 1

    def reward(self, score: float, *, passed: bool | None = None) -> None:
        """Say how the run went, from 0 to 1; it is sent when the run ends. It passed if the score is 1, unless told.

        Raises ValueError.
        """
        if not 0 <= score <= 1:
            raise ValueError(f"the score is {score}; expected one from 0 to 1")
        self._score = round(score * MICRO), score >= 1 if passed is None else passed

    def finish(self, status: str = "completed") -> None:
        """End the run, and send its reward if it has one. Raises ApiError, Unreachable."""
        spent = round((time.monotonic() - self._began) * 1e6)
        usage = {"actions": self.steps, "wall_microseconds": spent, "input_tokens": None, "output_tokens": None}
        event = {
            "type": "RunFinished",
            "run": self.run,
            "status": status,
            "fingerprint": NO_STATE,
            "end_state": self.put(b"[]", _JSON),
            "mutations": 0,
            "usage": usage,
        }
        self._append("finish", event)
        if self._score is not None:
            send_reward(self.connection, self.run, *self._score)

    def put(self, body: bytes, media_type: str) -> str:
        """Keep bytes; their address."""
        answer = self.connection.post("/v1/blobs", headers={"Content-Type": media_type}, content=body)
        return str(answer["address"])

    def _put_value(self, value: Any) -> str | None:
        if value is None:
            return None
        if isinstance(value, bytes):
            return self.put(value, "application/octet-stream")
        if isinstance(value, str):
            return self.put(value.encode(errors="replace"), _TEXT)
        return self.put(json.dumps(value, ensure_ascii=False, default=repr).encode(errors="replace"), _JSON)

    def _append(self, what: str, event: Mapping[str, Any]) -> None:
        body = {"stream": f"run/{self.run}", "events": [event]}
        self.connection.post("/v1/events", body, key=f"{self.run}:{what}"[-NAME_MOST:])


def send_reward(connection: Connection, run: str, score: int, passed: bool) -> None:  # noqa: FBT001
    """Close a run with its reward; the same one again changes nothing. Raises ApiError, Unreachable."""
    connection.post(f"/v1/runs/{run}/reward", {"score": score / MICRO, "passed": passed})


def open_run(connection: Connection, task: str, run: str | None, group: str | None, environment: str) -> ActiveRun:
    """A run that has not begun. Without a name it gets one of the task and a random part."""
    name = outside_name(run or f"{re.sub(r'[^A-Za-z0-9.-]+', '-', task)[:80]}-{uuid.uuid4().hex[:16]}")
    return ActiveRun(connection, task[:NAME_MOST], name, outside_name(group) if group else name, environment)


def outside_name(name: str) -> str:
    """The name with the beginning that names from outside have."""
    return name if name.startswith(OUTSIDE) else f"{OUTSIDE}{name}"


def action_name(name: str) -> str:
    """A name in the form that actions have: small letters, digits and underscores."""
    found = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")
    return (found if found[:1].isalpha() else f"do_{found}")[:64].rstrip("_")


def start_event(run: str, group: str, task: str, environment: str, nothing: str) -> dict[str, Any]:
    """The first event of a run of an agent that is not ours; `nothing` is the address of an empty list."""
    return {
        "type": "RunStarted",
        "run": run,
        "spec": {
            "spec_id": run,
            "template": task,
            "env_seed": 0,
            "group_id": group,
            "sibling_index": 0,
            "sweep": f"{OUTSIDE}client",
        },
        "task_spec": {
            "task_spec_id": task,
            "instruction": task,
            "task_class": task,
            "environment": environment,
            "max_steps": 0,
            "success_conditions": [],
        },
        "artifact": {"weights": "base", "memory": {"upto": 0, "folds": {}, "without": [], "digest": nothing}},
        "executor": "client",
        "plan": nothing,
        "applied": [],
        "arm": None,
    }


def trace_function(open_one: Callable[[str], ActiveRun], function: Callable[P, T]) -> Callable[P, T]:
    """The function, told: as a step of the run that it is called in, else as a run of its own with one step."""
    name = function.__name__
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def told_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            run = current_run.get()
            if run is not None:
                return await _told_step_async(run, function, args, kwargs)
            own = open_one(name)
            await asyncio.to_thread(own.begin)
            entered = current_run.set(own)
            try:
                result = await _told_step_async(own, function, args, kwargs)
            except BaseException:
                await asyncio.to_thread(own.finish, "halted")
                raise
            finally:
                current_run.reset(entered)
            await asyncio.to_thread(own.finish)
            return result

        return cast("Callable[P, T]", told_async)

    @functools.wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        run = current_run.get()
        if run is not None:
            return _told_step(run, function, args, kwargs)
        with open_one(name) as own:
            return _told_step(own, function, args, kwargs)

    return told


def _told_step(run: ActiveRun, function: Callable[..., T], args: Any, kwargs: Any) -> T:
    given = _arguments(function, args, kwargs)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        run.step(
            function.__name__, action=function.__name__, argument=given, observation=repr(error), outcome="server_error"
        )
        raise
    run.step(function.__name__, action=function.__name__, argument=given, observation=result)
    return result


async def _told_step_async(run: ActiveRun, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given, name = _arguments(function, args, kwargs), function.__name__
    tell = functools.partial(run.step, name, action=name, argument=given)
    try:
        result = await function(*args, **kwargs)
    except Exception as error:
        await asyncio.to_thread(tell, observation=repr(error), outcome="server_error")
        raise
    await asyncio.to_thread(tell, observation=result)
    return result


def _arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments of a call, by name, without the object that a method belongs to."""
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    return {name: value for name, value in given.items() if name not in {"self", "cls"}}
