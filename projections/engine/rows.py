"""Event rows, the input of folds: the envelope of an event and its declared fields.

There is one row class for each event type and set of fields: a struct decoded directly from the JSON array that the
reader's SQL builds, `[type, position, version, stream, microseconds, actor, field, ...]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from eventlog import events
from eventlog.chain import microseconds
from eventlog.codec import decode_event
from eventlog.errors import CorruptRow, FlywheelError, NewerSchemaVersion
from eventlog.store import Position, Recorded, Stored

from .decoders import decoder_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ATTRIBUTES: dict[str, str] = {}
"""Maps field paths to the row attributes that hold them."""

_UNREADABLE = (FlywheelError, LookupError, TypeError, ValueError, AttributeError)
"""Exceptions that upcasting an older payload may raise."""


class EventRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event as input of a fold. `version` is its index in its stream, `moment` microseconds since 1970.

    A field is named by its dotted path. Reading an undeclared field raises KeyError, reading it as another type raises
    TypeError.
    """

    type: ClassVar[str] = ""
    paths: ClassVar[tuple[str, ...]] = ()

    position: Position
    version: int
    stream: str
    moment: int
    actor: str

    @property
    def at(self) -> datetime:
        """The time at which the event was recorded."""
        return _EPOCH + timedelta(microseconds=self.moment)

    @property
    def fields(self) -> Mapping[str, Any]:
        """Every declared field by its path."""
        return {path: self.field(path) for path in self.paths}

    def field(self, path: str) -> Any:
        """The field at a path, of any type; None if the event lacks it."""
        try:
            return getattr(self, _ATTRIBUTES[path])
        except (AttributeError, KeyError):
            raise self.without(path) from None

    def text(self, path: str) -> str:
        """A text field."""
        try:
            value = getattr(self, _ATTRIBUTES[path])
        except (AttributeError, KeyError):
            raise self.without(path) from None
        if type(value) is str:
            return value
        raise self._unlike(path, "str")

    def number(self, path: str) -> int:
        """An integer field."""
        value = self.field(path)
        if type(value) is int:
            return value
        raise self._unlike(path, "int")

    def flag(self, path: str) -> bool:
        """A boolean field."""
        value = self.field(path)
        if type(value) is bool:
            return value
        raise self._unlike(path, "bool")

    def maybe_text(self, path: str) -> str | None:
        """A text field that may be absent."""
        return None if self.field(path) is None else self.text(path)

    def maybe_number(self, path: str) -> int | None:
        """An integer field that may be unknown."""
        return None if self.field(path) is None else self.number(path)

    def record(self, path: str) -> dict[str, Any]:
        """A nested object."""
        value = self.field(path)
        if type(value) is dict:
            return value
        raise self._unlike(path, "dict")

    def maybe_record(self, path: str) -> dict[str, Any] | None:
        """A nested object that may be absent."""
        return None if self.field(path) is None else self.record(path)

    def records(self, path: str) -> list[Any]:
        """A nested list."""
        value = self.field(path)
        if type(value) is list:
            return value
        raise self._unlike(path, "list")

    def without(self, path: str) -> Exception:
        """The error to raise for a field that this row lacks."""
        return KeyError(f"{self.type}.{path} was not declared; expected one of {', '.join(self.paths)}")

    def _unlike(self, path: str, kind: str) -> TypeError:
        return TypeError(f"{self.type}.{path} at {self.position} is {self.field(path)!r}; expected {kind}")


class Unreadable(EventRow, frozen=True, array_like=True, gc=False):
    """An event that cannot be decoded. Reading a field raises its error, so it parks only the folds that read one."""

    error: Any

    def without(self, path: str) -> Exception:  # noqa: ARG002 the same for all of them
        """See EventRow.without."""
        return self.error  # type: ignore[no-any-return]


class RawRow(EventRow, frozen=True, array_like=True, gc=False, tag=""):
    """A stored event of another schema version than the current one, not upcast yet."""

    kind: str
    schema_version: int
    payload: msgspec.Raw


@lru_cache(maxsize=1024)
def row_class(kind: str, paths: tuple[str, ...]) -> type[EventRow]:
    """The row class of an event type with these fields, in this order."""
    for path in paths:
        _ATTRIBUTES[path] = "at_" + path.replace(".", "__")
    return msgspec.defstruct(  # type: ignore[return-value]
        kind,
        [(_ATTRIBUTES[path], Any) for path in paths],
        bases=(EventRow,),
        namespace={"type": kind, "paths": paths, "__module__": __name__},
        tag=kind,
        frozen=True,
        array_like=True,
        gc=False,
    )


@lru_cache(maxsize=256)
def _unreadable_class(kind: str) -> type[Unreadable]:
    names = {"type": kind, "__module__": __name__}
    return msgspec.defstruct(  # type: ignore[return-value]
        kind, [], bases=(Unreadable,), namespace=names, frozen=True, array_like=True, gc=False
    )


def at_path(payload: Mapping[str, Any], path: str) -> object:
    """The value at a dotted path, or None."""
    value: Any = payload
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def row_of(recorded: Recorded, paths: Iterable[str]) -> EventRow:
    """The row of a recorded event, equal to the one that the reader's SQL returns."""
    wanted, payload = tuple(paths), recorded.event.model_dump(mode="json")
    made = row_class(recorded.event.type, wanted)
    moment = microseconds(recorded.at)
    fields = (at_path(payload, path) for path in wanted)
    return made(recorded.position, recorded.version, recorded.stream, moment, recorded.actor, *fields)


def row_of_stored(stored: Stored, paths: tuple[str, ...]) -> EventRow:
    """The row of a stored event, upcast to the current schema version."""
    whole = RawRow(
        stored.position,
        stored.version,
        stored.stream,
        microseconds(stored.at),
        stored.actor,
        stored.type,
        stored.schema_version,
        msgspec.Raw(stored.payload.encode()),
    )
    return upcast_row(whole, paths)


def upcast_row(whole: RawRow, paths: tuple[str, ...]) -> EventRow:
    """The row of a raw event at the current schema version; an Unreadable row if it cannot be upcast."""
    expected = events.EVENT_TYPES[whole.kind].schema_version
    envelope = (whole.position, whole.version, whole.stream, whole.moment, whole.actor)
    try:
        payload = _payload(whole, expected)
    except _UNREADABLE as error:
        return _unreadable_class(whole.kind)(*envelope, error)
    return row_class(whole.kind, paths)(*envelope, *(at_path(payload, path) for path in paths))


def _payload(whole: RawRow, expected: int) -> dict[str, Any]:
    if whole.schema_version > expected:
        raise NewerSchemaVersion(type=whole.kind, actual=whole.schema_version, expected=expected)
    if whole.schema_version == expected:
        return decoder_of(dict[str, Any]).decode(whole.payload)  # type: ignore[no-any-return]
    try:
        event = decode_event(whole.kind, whole.schema_version, bytes(whole.payload).decode())
    except ValueError as error:
        raise CorruptRow(position=whole.position, type=whole.kind, actual=str(error)) from error
    return event.model_dump(mode="json")
