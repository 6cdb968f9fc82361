"""A line of a chat log as a run from outside: each message of the assistant is a call with all before it. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eventlog.blobs import Blob
from eventlog.events import AnyEvent, Sampling

from ..serving.calls import MICRO, UNBOUNDED, ModelAnswer, ModelCall, Sampled, message_list
from ..serving.errors import BadCall
from ..serving.outside_facts import NOTHING, call_event, outside_start
from ..serving.reported_rewards import outside_end, reported_reward

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

EXECUTOR: Final = "chat-log"
SWEEP: Final = "ext-chat"
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,150}")
_SAMPLING: Final = Sampling(temperature_micro=MICRO, max_tokens=UNBOUNDED)
_OWN: Final = frozenset({"messages", "reward", "passed", "id", "group", "model"})


@dataclass(frozen=True, slots=True)
class ChatRun:
    """The events of a chat and the blobs that they name."""

    run: str
    events: tuple[AnyEvent, ...]
    blobs: tuple[Blob, ...]


def chat_run(line: Mapping[str, Any]) -> ChatRun:
    """The run of `{messages, reward?, passed?, id?, group?, model?}`; other fields are kept with its calls.

    A run without `id` is named for its content. Without `passed` it passed with a reward of at least one half;
    `passed` alone is a reward of 1 or 0.
    Raises BadCall.
    """
    messages = message_list(line)
    identity, group, model = (_text(line, name) for name in ("id", "group", "model"))
    run = f"ext-chat-{_name(identity) if identity else _digest(line)}"
    blobs: dict[str, Blob] = {NOTHING.digest: NOTHING}
    events: list[AnyEvent] = [outside_start(run, f"ext-chat-{_name(group)}" if group else run, "chat", SWEEP, EXECUTOR)]
    asked = {name: value for name, value in line.items() if name not in _OWN}
    places = [place for place, message in enumerate(messages) if place and message["role"] == "assistant"]
    if not places:
        raise BadCall(where="messages", actual="without an answer", expected="a message of the assistant after another")
    for index, place in enumerate(places):
        call = ModelCall(model or "unknown", tuple(messages[:place]), (), _SAMPLING, False, False, asked)  # noqa: FBT003
        answer = ModelAnswer(model or "unknown", (_sample(messages[place]),), None, None)
        event, named = call_event(run, call, answer, {}, index)
        events.append(event)
        blobs.update((blob.digest, blob) for blob in named)
    events.append(outside_end(run, "completed", (None, None)))
    graded = _reward(line)
    if graded is not None:
        score, passed = graded
        started_group = events[0].spec.group_id  # type: ignore[union-attr]  # RunStarted is the first
        events.append(reported_reward(run, started_group, score, passed=passed))
    return ChatRun(run, tuple(events), tuple(blobs.values()))


def _text(line: Mapping[str, Any], name: str) -> str:
    found = line.get(name)
    if found is not None and (not isinstance(found, str) or not found or "\0" in found or len(found) > 200):  # noqa: PLR2004
        raise BadCall(where=name, actual=repr(found)[:100], expected="a text of 1 to 200 characters")
    return found or ""


def _name(given: str) -> str:
    return given if _ID.fullmatch(given) else hashlib.sha256(given.encode()).hexdigest()[:32]


def _digest(line: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(line, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def _reward(line: Mapping[str, Any]) -> tuple[int, bool] | None:
    """The score and whether the run passed, of whichever is given."""
    found, passed = line.get("reward"), line.get("passed")
    if not isinstance(passed, bool | None):
        raise BadCall(where="passed", actual=repr(passed)[:100], expected="true or false")
    if found is None:
        return None if passed is None else (MICRO * passed, passed)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
        raise BadCall(where="reward", actual=repr(found), expected="a number from 0 to 1")
    score = round(found * MICRO)
    return score, score >= MICRO // 2 if passed is None else passed


def _sample(message: Mapping[str, Any]) -> Mapping[str, Json]:
    content, calls = message.get("content"), message.get("tool_calls")
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)
    return Sampled(text, "stop", tool_calls=calls if isinstance(calls, list) else ()).plain()
