"""What an agent's tools were given and gave, as the conversation of its next call tells it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

_NO_ACTION: Final = re.compile(r"[^a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What a model asked for: the id that it gave the use, the tool, and what that is given."""

    identity: str
    name: str
    argument: str | None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result: its use, what it gave, and the place of the message that tells it."""

    use: ToolUse
    result: str
    has_failed: bool
    place: int


def tool_results(messages: Sequence[Mapping[str, Json]]) -> Iterator[ToolResult]:
    """The results at the end of a conversation, after what the model said last: those that it is told now."""
    said = max((place for place, each in enumerate(messages) if each.get("role") == "assistant"), default=None)
    if said is None:
        return
    used = {each.identity: each for each in _uses(messages[said])}
    for place, message in enumerate(messages[said + 1 :], said + 1):
        for identity, content, has_failed in _answers(message):
            use = used.get(identity, ToolUse(identity, "tool", None))
            yield ToolResult(use, _as_text(content), has_failed, place)


def answered_uses(sample: Mapping[str, Any]) -> Iterator[ToolUse]:
    """The uses of tools in a recorded answer, which has them as its API does."""
    told = sample.get("tool_calls")
    return _uses({"tool_calls": told, "content": told})


def action_name(name: str) -> str:
    """A tool's name as the open name of an action."""
    found = _NO_ACTION.sub("_", name.lower()).strip("_")
    return (found if found[:1].isalpha() else f"tool_{found}").rstrip("_")[:64]


def content_texts(content: Any) -> Iterator[str]:
    """The texts of a content: its own, and those that tools gave. Pictures and other parts are left out. Both APIs."""
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict) and block.get("type") == "text":
            yield from (text for text in (block.get("text"),) if isinstance(text, str))
        elif isinstance(block, dict) and block.get("type") == "tool_result":
            given = block.get("content")
            nested = given if isinstance(given, list) else [{"type": "text", "text": given}]
            texts = (each.get("text") for each in nested if isinstance(each, dict) and each.get("type") == "text")
            yield from (text for text in texts if isinstance(text, str))


def _uses(message: Mapping[str, Any]) -> Iterator[ToolUse]:
    """The uses of tools in a message of the model. Both APIs."""
    for call in _objects(message.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            name = str(function.get("name") or "tool")
            yield ToolUse(str(call.get("id")), name, _argument_text(function.get("arguments")))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        name = str(legacy.get("name") or "tool")
        yield ToolUse(str(legacy.get("name")), name, _argument_text(legacy.get("arguments")))
    for block in _objects(message.get("content")):
        if block.get("type") == "tool_use":
            yield ToolUse(str(block.get("id")), str(block.get("name") or "tool"), _argument_text(block.get("input")))


def _answers(message: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """The results in a message: the id of the use, the content, and whether the tool failed. Both APIs."""
    role, content = message.get("role"), message.get("content")
    if role in {"tool", "function"}:
        yield str(message.get("tool_call_id") if role == "tool" else message.get("name")), content, False
    for block in _objects(content):
        if role == "user" and block.get("type") == "tool_result":
            yield str(block.get("tool_use_id")), block.get("content"), block.get("is_error") is True


def _objects(found: object) -> Iterator[Mapping[str, Any]]:
    return (each for each in found if isinstance(each, dict)) if isinstance(found, list) else iter(())


def _argument_text(argument: Any) -> str | None:
    return argument if argument is None or isinstance(argument, str) else _as_json(argument)


def _as_text(content: Any) -> str:
    """A content as text; of a list of parts each text, and the others as JSON (pictures are addresses by now)."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return _as_json(content)
    parts = (part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part for part in content)
    return "\n".join(part if isinstance(part, str) else _as_json(part) for part in parts)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
