"""Convert the stored message chain of a call into the messages of dataset rows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from eventlog.blobs.conversations import node
from eventlog.chain import canonical

from .plan_rows import ConversationMessage

if TYPE_CHECKING:
    from eventlog.blobs import Blob
    from eventlog.blobs.conversations import Json

Nodes = Mapping[str, tuple[ConversationMessage, str | None]]
"""Maps the address of a message to the message and the address of the previous one."""


def read_message(address: str, blob: Blob) -> tuple[ConversationMessage, str | None]:
    """A message blob as a turn of text, and the address of the previous message.

    A picture is replaced by its address. Raises NotAConversation, BlobDamaged.
    """
    found, parent = node(address, blob)
    role = found.get("role")
    return ConversationMessage(role if isinstance(role, str) else "user", _text(found)), parent


def messages_at(nodes: Nodes, address: str) -> tuple[tuple[str, ConversationMessage], ...]:
    """The messages of the conversation at an address, in order, each with its own address."""
    found: list[tuple[str, ConversationMessage]] = []
    following: str | None = address
    while following is not None:
        message, parent = nodes[following]
        found.append((following, message))
        following = parent
    return tuple(reversed(found))


def _text(message: Mapping[str, Json]) -> str:
    match message:
        case {"parts": [*parts]}:
            return "\n".join(_part(part) for part in parts)
        case {"content": str(content)}:
            return content
        case _:
            return canonical({key: value for key, value in message.items() if key != "role"}).decode()


def _part(part: Json) -> str:
    match part:
        case {"text": str(text)}:
            return text
        case {"image": str(address)}:
            return f"<image {address}>"
        case _:
            return canonical(part).decode()
