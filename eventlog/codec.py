"""Encode events to stored rows, and decode them. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from pydantic import ValidationError

from . import events
from .chain import canonical
from .errors import CorruptRow, NewerSchemaVersion, UnknownEventType, UpcasterMissing, UpcastFailed
from .store import Append, Position, Recorded, Stored
from .upcast import upcast

if TYPE_CHECKING:
    from .events import AnyEvent

_PLAIN: Final = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """One event of a request, ready to store: `payload` is its canonical JSON, `digest` the event digest."""

    type: str
    schema_version: int
    payload: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class EncodedAppend:
    """A request, ready to judge and to store. `content` is the digest that a repeated key must match."""

    stream: str
    expect: int | None
    key: str
    content: bytes
    actor: str
    cause: Position | None
    events: tuple[EncodedEvent, ...]


def encode_append(request: Append) -> EncodedAppend:
    """A request with its digests. Raises UnstorableText, UnstorableNumber before anything is written."""
    rows = encode_events(request)
    content = content_digest(request.stream, rows)
    return EncodedAppend(request.stream, request.expect, request.key, content, request.actor, request.cause, rows)


def encode_events(request: Append) -> tuple[EncodedEvent, ...]:
    """The rows of a request. Raises UnstorableText, UnstorableNumber before anything is written."""
    canonical({"stream": request.stream, "key": request.key})
    envelope = canonical({"actor": request.actor, "cause": request.cause})[:-1]
    return tuple(_encode_parts(event, envelope) for event in request.events)


def _encode_parts(event: AnyEvent, envelope: bytes) -> EncodedEvent:
    """The encoded event. Its canonical form joins that of its parts in the order of their names."""
    payload, kind, version = payload_bytes(event), event.type, event.schema_version
    whole = b'%s,"payload":%s,"schema_version":%d,"type":"%s"}' % (envelope, payload, version, kind.encode())
    return EncodedEvent(kind, version, payload, hashlib.sha256(whole).digest())


def payload_bytes(event: AnyEvent) -> bytes:
    """The canonical bytes of an event's payload. Raises UnstorableText.

    ASCII text without Unicode escapes takes the fast path: events hold no floats and no integers beyond 2^53.
    """
    payload = event.model_dump(mode="json", exclude={"type"})
    with suppress(UnicodeEncodeError):  # a lone surrogate; what follows says where it is
        plain = _PLAIN.encode(payload)
        if plain.isascii() and b"\\u" not in plain:
            return plain
    return canonical({"payload": payload})[len('{"payload":') : -1]


def content_digest(stream: str, rows: Iterable[EncodedEvent]) -> bytes:
    """The digest that a repeated append key must match: over stream, types, versions and payloads only."""
    listed = b",".join(b'["%s",%d,%s]' % (row.type.encode(), row.schema_version, row.payload) for row in rows)
    return hashlib.sha256(b'{"events":[%s],"stream":%s}' % (listed, canonical(stream))).digest()


def decode_event(kind: str, schema_version: int, payload: str) -> AnyEvent:
    """The event of a stored payload, upcast to the current version. Raises UnknownEventType, NewerSchemaVersion."""
    model = events.EVENT_TYPES.get(kind)
    if model is None:
        expected = ", ".join(sorted(events.EVENT_TYPES))
        raise UnknownEventType(actual=kind, schema_version=schema_version, expected=expected)
    if schema_version > model.schema_version:
        raise NewerSchemaVersion(type=kind, actual=schema_version, expected=model.schema_version)
    if schema_version < model.schema_version:
        payload = json.dumps(
            upcast(kind, schema_version, model.schema_version, _read_payload(kind, schema_version, payload))
        )
    return cast("AnyEvent", model.model_validate_json(payload))


def _read_payload(kind: str, version: int, payload: str) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = json.loads(payload)
    except ValueError as error:
        raise UpcastFailed(type=kind, version=version, actual=repr(error)) from error
    return stored


def decode(row: Stored) -> Recorded:
    """The recorded event of a stored row. Raises CorruptRow if the payload does not fit its type and version."""
    try:
        event = decode_event(row.type, row.schema_version, row.payload)
    except ValidationError as error:
        raise CorruptRow(position=row.position, type=row.type, actual=str(error.errors()[0]["msg"])) from error
    except (UpcasterMissing, UpcastFailed) as error:
        raise CorruptRow(position=row.position, type=row.type, actual=str(error)) from error
    return Recorded(row.position, row.stream, row.version, row.at, row.actor, row.cause, row.digest, event)
