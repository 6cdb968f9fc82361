"""Events to stored rows and back. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from .chain import canonical, digest, event_digest
from .errors import CorruptRow, NewerSchemaVersion, UnknownEventType, UpcasterMissing, UpcastFailed
from .events import EVENT_TYPES, AnyEvent
from .store import Append, Recorded, Stored
from .upcast import upcast


@dataclass(frozen=True, slots=True)
class Encoded:
    """One event of a request, ready to store."""

    type: str
    schema_version: int
    payload: dict[str, Any]
    digest: bytes


def encode(request: Append) -> tuple[Encoded, ...]:
    """The rows of a request. Raises UnstorableText, UnstorableNumber before anything is written."""
    canonical({"stream": request.stream, "key": request.key})
    rows = []
    for event in request.events:
        payload = event.model_dump(mode="json", exclude={"type"})
        kind = event.type
        content = event_digest(kind, event.schema_version, payload, request.actor, request.cause)
        rows.append(Encoded(kind, event.schema_version, payload, content))
    return tuple(rows)


def content_digest(stream: str, rows: tuple[Encoded, ...]) -> bytes:
    """What a key stands for: stream, types, versions and payloads; never times or positions."""
    return digest({"stream": stream, "events": [[row.type, row.schema_version, row.payload] for row in rows]})


def payload_text(row: Encoded) -> str:
    """The canonical text of a payload."""
    return canonical(row.payload).decode()


def decode_event(kind: str, schema_version: int, payload: str) -> AnyEvent:
    """The event of a stored payload, carried to its current version. Raises UnknownEventType, NewerSchemaVersion."""
    model = EVENT_TYPES.get(kind)
    if model is None:
        raise UnknownEventType(actual=kind, schema_version=schema_version, expected=", ".join(sorted(EVENT_TYPES)))
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
