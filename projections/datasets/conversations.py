"""Convert the stored message chain of a call into the messages of dataset rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventlog.blobs.conversations import node
from eventlog.chain import canonical
from eventlog.errors import UnstorableNumber, UnstorableText

from .plan_rows import ConversationMessage

if TYPE_CHECKING:
    from eventlog.blobs import Blob
    from eventlog.blobs.conversations import Json

_BESIDE_TEXT: Final = ("tool_calls", "function_call", "audio")
_TOOLS: Final = ("tool", "function")
"""Roles of what a tool answered."""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A stored message as a turn of text, and the address of the previous one.

    `is_text` is False if it holds something else, such as a picture or the call of a tool, which a base's chat template
    would not write as the model saw it.
    """

    message: ConversationMessage
    parent: str | None
    is_text: bool


Nodes = Mapping[str, StoredTurn]
"""Maps the address of a message to the message."""


def read_message(address: str, blob: Blob) -> StoredTurn:
    """A message blob as a turn. A picture is replaced by its address, a lone surrogate, which is no text, by "?".

    Raises NotAConversation, BlobDamaged.
    """
    found, parent = node(address, blob)
    role = found.get("role")
    written = role if isinstance(role, str) else "user", _text(found)
    role, text = (each.encode(errors="replace").decode() for each in written)
    return StoredTurn(ConversationMessage(role, text), parent, _is_text(found) and (role, text) == written)


def messages_at(nodes: Nodes, address: str) -> tuple[tuple[str, ConversationMessage], ...]:
    """The messages of the conversation at an address, in order, each with its own address."""
    found: list[tuple[str, ConversationMessage]] = []
    following: str | None = address
    while following is not None:
        turn = nodes[following]
        found.append((following, turn.message))
        following = turn.parent
    return tuple(reversed(found))


def texts_at(nodes: Nodes, address: str) -> Sequence[ConversationMessage] | None:
    """The messages of the conversation at an address; None if one of them holds more than text."""
    told = messages_at(nodes, address)
    return [message for _, message in told] if all(nodes[each].is_text for each, _ in told) else None


def _text(message: Mapping[str, Json]) -> str:
    match message:
        case {"parts": [*parts]} | {"content": [*parts]}:
            return "\n".join(_part(part) for part in parts)
        case {"content": str(content)}:
            return content
        case _:
            return _json({key: value for key, value in message.items() if key != "role"})


def _part(part: Json) -> str:
    match part:
        case {"text": str(text)}:
            return text
        case {"image": str(address)}:
            return f"<image {address}>"
        case _:
            return _json(part)


def _json(value: Json) -> str:
    """A value as JSON: canonical, as far as its numbers and texts are those of events."""
    try:
        return canonical(value).decode()
    except (UnstorableNumber, UnstorableText, RecursionError):
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _is_text(message: Mapping[str, Json]) -> bool:
    """True for a message of our own or of the two APIs with text alone; the answer of a tool is none."""
    if any(message.get(name) for name in _BESIDE_TEXT) or message.get("role") in _TOOLS:
        return False
    match message:
        case {"parts": [*parts]} | {"content": [*parts]}:
            return all(_is_text_part(part) for part in parts)
        case {"content": str()}:
            return True
        case _:
            return False


def _is_text_part(part: Json) -> bool:
    """True for a block of text, which in our own messages has no type."""
    match part:
        case {"text": str(), **more}:
            return more.get("type", "text") == "text" and not isinstance(more.get("image"), str)
        case _:
            return False
