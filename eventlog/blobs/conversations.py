"""Conversations as linked message blobs, so that growing histories and shared prefixes are stored once.

Each message is one blob, `{"message": ..., "parent": address of the previous message, or null}` in canonical JSON (keys
in order, no spaces). The address of the last message identifies the whole list: a Merkle list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..errors import BlobDamaged, NoMessages, NotAConversation, UnstorableNumber, UnstorableText
from .canonical_json import canonical_json
from .contract import Blob, BlobStore, is_address

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

MESSAGE_TYPE = "application/vnd.flywheel.message+json"
"""The media type of message blobs, which may name the previous message."""


def put_messages(blobs: BlobStore, messages: Sequence[Mapping[str, Json]], *, subject: str | None = None) -> str:
    """Store a list of chat messages (plain JSON), and return its address. A prefix that is stored already is shared.

    Raises NoMessages, SubjectGone, and UnstorableText or UnstorableNumber for lone surrogates, NaN and infinity.
    """
    if not messages:
        raise NoMessages(actual=0, expected=1)
    return blobs.put(list(link_messages(messages, blobs.address_function(subject))), subject=subject)[-1]


def get_messages(blobs: BlobStore, address: str) -> list[Mapping[str, Json]]:
    """The messages of the conversation at an address, in order. Raises NotAConversation and what BlobStore.get does."""
    found: list[Mapping[str, Json]] = []
    following: str | None = address
    while following is not None:
        message, following = node(following, blobs.get(following))
        found.append(message)
    return found[::-1]


def link_messages(messages: Sequence[Mapping[str, Json]], name: Callable[[Blob], str]) -> Iterator[Blob]:
    """The message blobs of a list, each naming the previous one. Pure; `name` computes their addresses."""
    parent: str | None = None
    for place, message in enumerate(messages):
        blob = Blob(MESSAGE_TYPE, _canonical(message, parent, place))
        parent = name(blob)
        yield blob


def node(address: str, blob: Blob) -> tuple[Mapping[str, Json], str | None]:
    """A message and the address of the previous one. Raises NotAConversation, BlobDamaged."""
    if blob.media_type != MESSAGE_TYPE:
        raise NotAConversation(address=address, actual=blob.media_type, expected=MESSAGE_TYPE)
    try:
        found = json.loads(blob.body)
        message, parent = found["message"], found["parent"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BlobDamaged(actual=f"right, but they are not a message ({error})", expected=address) from error
    if not isinstance(message, dict) or not (parent is None or (isinstance(parent, str) and is_address(parent))):
        raise BlobDamaged(actual="right, but the message is malformed", expected=address)
    return message, parent


def _canonical(message: Mapping[str, Json], parent: str | None, place: int) -> bytes:
    try:
        return canonical_json({"message": message, "parent": parent})
    except UnicodeEncodeError as error:
        raise UnstorableText(actual="a lone surrogate", where=f"message {place}") from error
    except ValueError as error:
        raise UnstorableNumber(actual=str(error), where=f"message {place}") from error
