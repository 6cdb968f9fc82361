"""An OpenEnv server as an environment: reset, step and state over one WebSocket session for each instance.

The protocol is that of `openenv-core` (GET /metadata and /schema, then messages of type reset, step and state on /ws).
The server is somebody else's process; only the client is here, so nothing of its package is imported.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from ..contract import MICRO
from ..errors import ContractBroken, EnvironmentDown
from .episode import SEEDS_END, ActionSpec, EpisodeKind, Turn, UnfitArgument, reward_in_micro
from .errors import LibraryMissing, UnknownEnvironment

STEP: Final = "step"
TIMEOUT_S: Final = 30.0
_LARGEST: Final = 16 * 2**20
_WORDS: Final = ("", "0", "1", "-1", "yes", "no", "help", "a word", "print(1)", "ünïcödé ✓")
_UNFIT: Final = frozenset({"VALIDATION_ERROR", "INVALID_JSON"})


def openenv_kind(
    name: str, url: str, threshold_micro: int = MICRO, transport: httpx2.BaseTransport | None = None
) -> EpisodeKind:
    """The kind of an OpenEnv server at an address. Raises EnvironmentDown, ContractBroken, LibraryMissing."""
    place = urlsplit(url)
    if place.scheme not in {"http", "https"} or not place.netloc:
        raise UnknownEnvironment(
            environment=name, actual=f"its address is {url!r}", expected="http:// or https:// and a host"
        )
    base = url.rstrip("/")
    with httpx2.Client(timeout=TIMEOUT_S, trust_env=False, transport=transport) as web:
        schema, about = _ask(web, base, "schema"), _ask(web, base, "metadata")
    only, action = _action_of(base, schema)
    described = str(about.get("description") or f"Act in {name}.")
    return EpisodeKind(
        name,
        described,
        (action,),
        lambda seed: OpenEnvEpisode(base, only, seed),
        address=base,
        threshold_micro=threshold_micro,
    )


def _ask(web: httpx2.Client, base: str, what: str) -> Mapping[str, Any]:
    try:
        answer = web.get(f"{base}/{what}")
        answer.raise_for_status()
        found = answer.json()
    except (httpx2.HTTPError, ValueError) as problem:
        actual = f"{type(problem).__name__} {problem}".strip()
        raise EnvironmentDown(url=base, operation=what, actual=actual, timeout_s=TIMEOUT_S) from problem
    if not isinstance(found, dict):
        raise ContractBroken(url=base, operation=what, actual="no JSON object", expected="a JSON object")
    return found


def _action_of(base: str, schema: Mapping[str, Any]) -> tuple[str | None, ActionSpec]:
    """The action of a server: its only text field by name, or `step` with a JSON object of its schema."""
    action = schema.get("action")
    fields = action.get("properties") if isinstance(action, dict) else None
    if not isinstance(fields, dict):
        raise ContractBroken(
            url=base, operation="schema", actual="no properties of an action", expected="a JSON schema"
        )
    own = {key: each for key, each in fields.items() if key != "metadata"}
    if len(own) == 1:
        ((key, told),) = own.items()
        if isinstance(told, dict) and told.get("type") == "string":
            return key, ActionSpec(key, str(told.get("description") or f"set {key}"))
    told = json.dumps(own, ensure_ascii=False, sort_keys=True)
    return None, ActionSpec(STEP, f"act; the argument is an object with these fields: {told}", "json")


class OpenEnvEpisode:
    """One session of a server from its reset to its end. See Episode."""

    def __init__(self, base: str, only: str | None, seed: int) -> None:
        try:
            from websockets.sync import client  # noqa: PLC0415 - an extra, imported on use
        except ImportError as problem:
            raise LibraryMissing(environment=base, actual="websockets", expected="openenv") from problem
        self._base = base
        self._only = only
        address = f"ws{base.removeprefix('http')}/ws"
        limits: Mapping[str, Any] = {"open_timeout": TIMEOUT_S, "close_timeout": TIMEOUT_S, "max_size": _LARGEST}
        with ExitStack() as stack:
            try:
                self._wire = stack.enter_context(client.connect(address, proxy=None, **limits))
            except Exception as problem:
                raise self._down_or_else("a session", problem) from problem
            self._start = self._turn("reset", {"seed": seed % SEEDS_END}).observation
            self._stack = stack.pop_all()

    @property
    def observation(self) -> str:
        """See Episode."""
        return self._start

    @property
    def solution(self) -> tuple[tuple[str, str | None], ...] | None:
        """See Episode: no server tells it."""
        return None

    def act(self, action: str, argument: str | None) -> Turn:  # noqa: ARG002 - there is one action
        """See Episode. Raises UnfitArgument for what the server's schema refuses."""
        if self._only is not None:
            return self._turn("step", {self._only: argument or ""})
        try:
            given = json.loads(argument or "")
        except (ValueError, RecursionError) as problem:
            raise UnfitArgument("expected a JSON object") from problem
        if not isinstance(given, dict):
            raise UnfitArgument("expected a JSON object")
        return self._turn("step", given)

    def sample_action(self, rng: random.Random) -> tuple[str, str | None]:
        """See Episode: a word, or an empty object."""
        return (STEP, "{}") if self._only is None else (self._only, rng.choice(_WORDS))

    def state(self) -> Mapping[str, Any]:
        """The server's own state of the session. Raises EnvironmentDown, ContractBroken."""
        return self._exchange("state", None)

    def close(self) -> None:
        """See Episode."""
        self._stack.close()

    def _turn(self, operation: str, data: Mapping[str, Any]) -> Turn:
        found = self._exchange(operation, data)
        seen, reward = found.get("observation"), found.get("reward")
        if not isinstance(seen, dict) or isinstance(reward, str | list | dict):
            expected = "an observation, a reward and done"
            raise ContractBroken(url=self._base, operation=operation, actual=", ".join(found), expected=expected)
        told = json.dumps(
            {key: each for key, each in seen.items() if key != "metadata"}, ensure_ascii=False, sort_keys=True
        )
        return Turn(told, 0 if reward is None else reward_in_micro(float(reward)), is_over=found.get("done") is True)

    def _exchange(self, operation: str, data: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Send a message and read its answer. Raises UnfitArgument if the server's schema refuses an action."""
        message = {"type": operation} if data is None else {"type": operation, "data": data}
        try:
            self._wire.send(json.dumps(message))
            answer = json.loads(self._wire.recv(timeout=TIMEOUT_S))
        except ValueError as problem:
            raise ContractBroken(url=self._base, operation=operation, actual="no JSON", expected="JSON") from problem
        except Exception as problem:
            raise self._down_or_else(operation, problem) from problem
        found = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(found, dict):
            raise ContractBroken(url=self._base, operation=operation, actual="no data", expected="an object with data")
        if answer.get("type") == "error":
            code, told = str(found.get("code")), " ".join(str(found.get("message")).split())
            if code in _UNFIT and operation == "step":
                raise UnfitArgument(told)
            raise ContractBroken(
                url=self._base, operation=operation, actual=f"{code}: {told}", expected="an observation"
            )
        return found

    def _down_or_else(self, operation: str, problem: Exception) -> Exception:
        """EnvironmentDown for a failure of the connection, else the problem itself."""
        if type(problem).__module__.partition(".")[0] != "websockets" and not isinstance(problem, OSError):
            return problem
        actual = f"{type(problem).__name__} {problem}".strip()
        return EnvironmentDown(url=self._base, operation=operation, actual=actual, timeout_s=TIMEOUT_S)
