"""What a model was told and what it answered, from a span's attributes or events, in the chat form of the log. Pure.

Three ways of writing it down are read: lists of messages with parts (the GenAI conventions since v1.37), an event for
each message (up to v1.36), and attributes with numbered paths (OpenInference, OpenLLMetry).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from projections.engine.decoders import decoder_of

from ..serving.calls import Sampled
from .spans import Span

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

Message = dict[str, Any]

_DEEPEST: Final = 16
"""Parts of a dotted path; a longer one is passed over."""

_LEVELS: Final = 500
"""Levels of lists and objects in JSON text; what is deeper stays text, as it may be too deep to be written again."""

_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens"})


def told_messages(span: Span) -> tuple[Message, ...]:
    """The messages that the model was given; none if the span does not hold them."""
    return tuple(next(filter(None, _told_each_way(span)), []))


def _told_each_way(span: Span) -> Iterator[list[Message]]:
    own = span.attributes
    yield [*_system(own), *_messages(own.get("gen_ai.input.messages"))]
    yield [message for event in span.events for message in _details(event.attributes, "gen_ai.input.messages")]
    yield [message for event in span.events if (message := _told_by_event(event.name, event.attributes))]
    yield _numbered_messages(own, "llm.input_messages", "message")
    yield _numbered_messages(own, "gen_ai.prompt", None)
    yield _messages(_first_of(span, "gen_ai.prompt"))
    yield _as_user(own.get("input.value")) if _is_openinference(span) else []


def answered_samples(span: Span) -> tuple[Mapping[str, Json], ...]:
    """The samples that the model drew, as a completion blob holds them; none if the span does not hold them."""
    finishes = span.attributes.get("gen_ai.response.finish_reasons")
    reasons = finishes if isinstance(finishes, list) else []
    messages = next(filter(None, _answered_each_way(span)), [])
    return tuple(
        _sample(message, reasons[place] if place < len(reasons) else None) for place, message in enumerate(messages)
    )


def _answered_each_way(span: Span) -> Iterator[list[Message]]:
    own = span.attributes
    yield _messages(own.get("gen_ai.output.messages"))
    yield [message for event in span.events for message in _details(event.attributes, "gen_ai.output.messages")]
    yield [_choice(event.attributes) for event in span.events if event.name == "gen_ai.choice"]
    yield _numbered_messages(own, "llm.output_messages", "message")
    yield _numbered_messages(own, "gen_ai.completion", None)
    yield _messages(_first_of(span, "gen_ai.completion"))
    yield _as_user(own.get("output.value")) if _is_openinference(span) else []


def plain_structure(value: Any) -> Any:
    """A list or an object that was given as it is or as JSON text, else None."""
    if isinstance(value, list | dict):
        return value
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return None
    try:
        found = decoder_of(Any).decode(value)  # refuses what no blob can hold: lone surrogates, NaN and infinity
    except (ValueError, RecursionError):
        return None
    may_be_deep = value.count("[") + value.count("{") >= _LEVELS
    return None if may_be_deep and _has_level(found, _LEVELS) else found


def _has_level(value: Any, level: int) -> bool:
    """True if something lies so many lists and objects deep."""
    layer = [value]
    for _ in range(level):
        parts = [part for part in layer if isinstance(part, list | dict)]
        layer = [each for part in parts for each in (part.values() if isinstance(part, dict) else part)]
        if not layer:
            return False
    return True


def _is_openinference(span: Span) -> bool:
    return "openinference.span.kind" in span.attributes


def _first_of(span: Span, name: str) -> Any:
    """An attribute of the span, or of the event that carried it before v1.28."""
    carried = (event.attributes.get(name) for event in span.events if event.name.startswith("gen_ai.content."))
    return span.attributes.get(name, next((each for each in carried if each is not None), None))


def _system(own: Mapping[str, Any]) -> list[Message]:
    given = own.get("gen_ai.system_instructions")
    parts = plain_structure(given)
    if parts is None:
        return [{"role": "system", "content": given}] if isinstance(given, str) and given else []
    return _of_parts("system", parts if isinstance(parts, list) else [parts])


def _details(attributes: Mapping[str, Any], name: str) -> list[Message]:
    before = _system(attributes) if name == "gen_ai.input.messages" else []
    return [*before, *_messages(attributes.get(name))]


def _messages(value: Any) -> list[Message]:
    """A list of messages, with parts or in the chat form; a plain text is a user's."""
    found = plain_structure(value)
    if found is None:
        return _as_user(value)
    each = found if isinstance(found, list) else [found]
    return [message for item in each if isinstance(item, dict) for message in _message(item)]


def _as_user(value: Any) -> list[Message]:
    if value is None or value == "":
        return []
    return [{"role": "user", "content": value if isinstance(value, str) else _text(value)}]


def _message(item: Message) -> list[Message]:
    role = str(item.get("role") or "user")
    if isinstance(item.get("parts"), list):
        made = _of_parts(role, item["parts"])
        finish = item.get("finish_reason")
        return [{**each, "finish_reason": finish} for each in made] if isinstance(finish, str) else made
    kept = ("content", "tool_calls", "tool_call_id", "name", "finish_reason", "reasoning_content")
    return [{"role": role, **{name: item[name] for name in kept if item.get(name) is not None}}]


def _of_parts(role: str, parts: Sequence[Any]) -> list[Message]:
    """A message of parts, as one in the chat form; the answers of tools in it are messages of their own."""
    texts: list[str] = []
    others: list[Any] = []
    calls: list[Any] = []
    thoughts: list[str] = []
    answers: list[Message] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            texts.append(_text(part.get("content", part.get("text", ""))))
        elif kind == "reasoning":
            thoughts.append(_text(part.get("content", "")))
        elif kind == "tool_call":
            calls.append(_tool_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            content = _text(part.get("response", part.get("result", "")))
            answers.append({"role": "tool", "content": content, "tool_call_id": _text(part.get("id") or "")})
        else:
            others.append(part if isinstance(part, dict) else {"type": "text", "text": _text(part)})
    said: Message = {"role": role}
    if others:
        said["content"] = [*({"type": "text", "text": each} for each in texts), *others]
    elif texts or not answers:
        said["content"] = "\n".join(texts)
    if thoughts:
        said["reasoning_content"] = "\n".join(thoughts)
    if calls:
        said["tool_calls"] = calls
    return answers if answers and len(said) == 1 else [said, *answers]


def _told_by_event(name: str, attributes: Mapping[str, Any]) -> Message | None:
    """The message of an event such as `gen_ai.user.message`; None for an event that is none."""
    start, _, rest = name.partition("gen_ai.")
    role, dot, kind = rest.partition(".")
    if start or not dot or kind != "message":
        return None
    body = _body(attributes)
    said: Message = {"role": str(body.get("role") or role)}
    content = body.get("content")
    if content is not None:
        said["content"] = content
    calls = plain_structure(body.get("tool_calls"))
    if isinstance(calls, list):
        said["tool_calls"] = calls
    if role == "tool" and body.get("id") is not None:
        said["tool_call_id"] = _text(body["id"])
    return said


def _choice(attributes: Mapping[str, Any]) -> Message:
    body = _body(attributes)
    message = plain_structure(body.get("message"))
    said = message if isinstance(message, dict) else {"content": body.get("message", body.get("content"))}
    calls = plain_structure(said.get("tool_calls", body.get("tool_calls")))
    return {
        "role": "assistant",
        "content": said.get("content"),
        "finish_reason": body.get("finish_reason"),
        **({"tool_calls": calls} if isinstance(calls, list) else {}),
    }


def _body(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a message event: its attributes, or one of them that holds all."""
    whole = plain_structure(attributes.get("gen_ai.event.content"))
    return {**attributes, **whole} if isinstance(whole, dict) else attributes


def _sample(message: Message, finish: Any) -> Mapping[str, Json]:
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else _text(content)
    reason = message.get("finish_reason") or finish
    calls = message.get("tool_calls")
    return Sampled(
        text, "length" if reason in _CUT else "stop", tool_calls=calls if isinstance(calls, list) else ()
    ).plain()


def _numbered_messages(own: Mapping[str, Any], prefix: str, below: str | None) -> list[Message]:
    """Messages of attributes such as `llm.input_messages.0.message.content`."""
    tree = _tree(own, f"{prefix}.")
    found = []
    for item in _in_order(tree):
        message = item.get(below) if below is not None and isinstance(item, dict) else item
        if isinstance(message, dict):
            found.append(_of_numbered(message))
    return found


def _of_numbered(message: Mapping[str, Any]) -> Message:
    said: Message = {"role": _text(message.get("role") or "user")}
    parts = [each.get("message_content", each) for each in _in_order(message.get("contents")) if isinstance(each, dict)]
    if parts and all(isinstance(part, dict) and part.get("type") == "text" for part in parts):
        said["content"] = "\n".join(_text(part.get("text", "")) for part in parts)
    elif parts:
        said["content"] = parts
    elif message.get("content") is not None:
        said["content"] = message["content"]
    calls = [_numbered_call(each) for each in _in_order(message.get("tool_calls")) if isinstance(each, dict)]
    if calls:
        said["tool_calls"] = calls
    for name in ("name", "tool_call_id", "finish_reason"):
        if isinstance(message.get(name), str):
            said[name] = message[name]
    return said


def _numbered_call(item: Mapping[str, Any]) -> Message:
    inner = item.get("tool_call", item)
    inner = inner if isinstance(inner, dict) else {}
    function = inner.get("function")
    function = function if isinstance(function, dict) else inner
    return _tool_call(inner.get("id"), function.get("name"), function.get("arguments"))


def _tool_call(identity: Any, name: Any, arguments: Any) -> Message:
    """A tool call in the chat form, whose arguments are JSON text."""
    function = {"name": _text(name or ""), "arguments": _text({} if arguments is None else arguments)}
    return {"id": _text(identity or ""), "type": "function", "function": function}


def _tree(own: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Attributes below a prefix as nested objects; of two that exclude each other the first stays."""
    root: dict[str, Any] = {}
    for name in sorted(name for name in own if name.startswith(prefix)):
        *path, last = name.removeprefix(prefix).split(".", _DEEPEST)
        place: Any = root
        for part in path:
            place = place.setdefault(part, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.setdefault(last, own[name])
    return root


def _in_order(tree: Any) -> Iterator[Any]:
    """The items of an object whose keys are numbers, in order of these."""
    if isinstance(tree, dict):
        yield from (
            tree[key] for key in sorted((key for key in tree if key.isdecimal()), key=lambda key: (len(key), key))
        )
    elif isinstance(tree, list):
        yield from tree


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
