"""Events to stored rows and back. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from . import events
from .chain import canonical
from .errors import CorruptRow, NewerSchemaVersion, UnknownEventType, UpcasterMissing, UpcastFailed
from .store import Append, Position, Recorded, Stored
from .upcast import upcast

if TYPE_CHECKING:
    from .events import AnyEvent


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """One event of a request, ready to store: `payload` is its canonical text, `digest` the event's."""

    type: str
    schema_version: int
    payload: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class EncodedAppend:
    """A request, ready to judge and to store. `content` is what its key stands for."""

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
    """The canonical form of an event is put together from that of its parts: their names come in this order."""
    payload, kind, version = payload_bytes(event), event.type, event.schema_version
    whole = b'%s,"payload":%s,"schema_version":%d,"type":"%s"}' % (envelope, payload, version, kind.encode())
    return EncodedEvent(kind, version, payload, hashlib.sha256(whole).digest())


def payload_bytes(event: AnyEvent) -> bytes:
    """The canonical bytes of an event's payload. Raises UnstorableText.

    Plain ASCII (no escape by number in it) needs no second look: an event holds no float and no integer beyond 2^53.
    """
    payload = event.model_dump(mode="json", exclude={"type"})
    plain = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return canonical({"payload": payload})[len('{"payload":') : -1] if "\\u" in plain else plain.encode()


def content_digest(stream: str, rows: Iterable[EncodedEvent]) -> bytes:
    """What a key stands for: stream, types, versions and payloads; never times or positions."""
    listed = b",".join(b'["%s",%d,%s]' % (row.type.encode(), row.schema_version, row.payload) for row in rows)
    return hashlib.sha256(b'{"events":[%s],"stream":%s}' % (listed, canonical(stream))).digest()


def decode_event(kind: str, schema_version: int, payload: str) -> AnyEvent:
    """The event of a stored payload, carried to its current version. Raises UnknownEventType, NewerSchemaVersion."""
    model = events.EVENT_TYPES.get(kind)
    if model is None:
        expected = ", ".join(sorted(events.EVENT_TYPES))
        raise UnknownEventType(actual=kind, schema_version=schema_version, expected=expected)
    if schema_version > model.schema_version:
        raise NewerSchemaVersion(type=kind, actual=schema_version, expected=model.schema_version)
    if schema_version < model.schema_version:
        payload = json.dumps(upcast(kind, schema_version, model.schema_version, json.loads(payload)))
    return cast("AnyEvent", model.model_validate_json(payload))


def decode(row: Stored) -> Recorded:
    """The recorded event of a stored row. Raises CorruptRow where the payload is not its type's and version's."""
    try:
        event = decode_event(row.type, row.schema_version, row.payload)
    except ValidationError as error:
        raise CorruptRow(position=row.position, type=row.type, actual=str(error.errors()[0]["msg"])) from error
    except (UpcasterMissing, UpcastFailed) as error:
        raise CorruptRow(position=row.position, type=row.type, actual=str(error)) from error
    return Recorded(row.position, row.stream, row.version, row.at, row.actor, row.cause, row.digest, event)
