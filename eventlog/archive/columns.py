"""The columns of an archived event family: the envelope of every event, then typed columns from the vocabulary. Pure.

A scalar field is a column named by its dotted path (`terms.score`), a nested model is flattened, and a list, a mapping
or a union of several kinds is canonical JSON text. Values are those of the stored payload: rows at an older schema
version are not upcast.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import polars as pl
from pydantic import BaseModel

from ..chain import canonical
from ..events import EVENT_TYPES
from ..store import Stored
from .manifest import Kind

OTHER = "other"
"""The family of events with unknown types: they have the envelope columns and no typed ones."""

ENVELOPE: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "position": pl.Int64,
    "stream": pl.String,
    "version": pl.Int64,
    "at": pl.Datetime("us", "UTC"),
    "actor": pl.String,
    "cause": pl.Int64,
    "type": pl.String,
    "schema_version": pl.Int64,
    "payload": pl.String,
    "digest": pl.Binary,
    "chain": pl.Binary,
}
"""The first columns of every file, in this order. `payload` is canonical JSON text, without the event type."""

DTYPES: Mapping[Kind, type[pl.DataType]] = {
    "text": pl.String,
    "integer": pl.Int64,
    "boolean": pl.Boolean,
    "json": pl.String,
}
_MOST = 2**63
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One typed column: its name, the path of its value in the payload, and its kind."""

    name: str
    path: Path
    kind: Kind


def event_family(kind: str) -> str:
    """The family of an event type: the module of its class."""
    model = EVENT_TYPES.get(kind)
    return OTHER if model is None else model.__module__.rpartition(".")[2]


FAMILIES: tuple[str, ...] = (*sorted({event_family(kind) for kind in EVENT_TYPES}), OTHER)


@cache
def columns_of_family(family: str) -> tuple[Column, ...]:
    """The typed columns of a family, by name. A path with different kinds in two events is JSON text."""
    kinds: dict[Path, Kind] = {}
    for kind in EVENT_TYPES:
        if event_family(kind) == family:
            for column in columns_of_type(kind):
                known = kinds.setdefault(column.path, column.kind)
                kinds[column.path] = known if known == column.kind else "json"
    return tuple(Column(column_name(path), path, kinds[path]) for path in sorted(kinds))


@cache
def columns_of_type(kind: str) -> tuple[Column, ...]:
    """The typed columns that events of one type fill."""
    return tuple(Column(column_name(path), path, what) for path, what in _leaves(EVENT_TYPES[kind], (), ()))


def column_name(path: Path) -> str:
    """The dotted path, prefixed with `payload.` if the envelope has a column of that name."""
    name = ".".join(path)
    return f"payload.{name}" if name in ENVELOPE else name


def _leaves(model: type[BaseModel], path: Path, inside: tuple[type, ...]) -> Iterator[tuple[Path, Kind]]:
    for name, field in model.model_fields.items():
        if (path, name) == ((), "type"):
            continue
        options = [option for option in _options(field.annotation) if option is not NoneType]
        only = options[0] if len(options) == 1 else None
        if isinstance(only, type) and issubclass(only, BaseModel) and only not in inside:
            yield from _leaves(only, (*path, name), (*inside, only))
        else:
            kinds = {_kind(option) for option in options}
            yield (*path, name), kinds.pop() if len(kinds) == 1 else "json"


def _options(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return [option for part in get_args(annotation) for option in _options(part)]
    if get_origin(annotation) is Literal:
        return [type(value) for value in get_args(annotation)]
    return [annotation]


def _kind(option: Any) -> Kind:
    known: Mapping[Any, Kind] = {str: "text", bool: "boolean", int: "integer"}
    return known.get(option, "json")


def schema_of_family(family: str) -> dict[str, pl.DataType | type[pl.DataType]]:
    """Column names and types of a family's file, in order."""
    return {**ENVELOPE, **{column.name: DTYPES[column.kind] for column in columns_of_family(family)}}


def frame(family: str, rows: Sequence[Stored], payloads: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows of a family with their typed columns. `payloads` are the rows' parsed payloads, of storable values."""
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in ENVELOPE}
    columns["payload"] = [_text(payload) for payload in payloads]
    return pl.DataFrame({**columns, **cells(family, rows, payloads)}, schema=schema_of_family(family))


def cells(family: str, rows: Sequence[Stored], payloads: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The typed columns of rows, by name."""
    kinds = {column.path: column.kind for column in columns_of_family(family)}
    found: dict[str, list[Any]] = {column.name: [None] * len(rows) for column in columns_of_family(family)}
    plans = {
        kind: [(found[column.name], column.path, kinds[column.path]) for column in columns_of_type(kind)]
        for kind in {row.type for row in rows}
        if kind in EVENT_TYPES
    }
    for index, (row, payload) in enumerate(zip(rows, payloads, strict=True)):
        for target, path, kind in plans.get(row.type, ()):
            target[index] = cell(payload, path, kind)
    return found


def cell(payload: Mapping[str, Any], path: Path, kind: Kind) -> str | int | bool | None:
    """The value at a path; None if the payload has no value there, null, or a value of another kind."""
    value: Any = payload
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return None
    match kind:
        case "json":
            return _text(value)
        case "text":
            return value if isinstance(value, str) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer":
            return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST else None


def _text(value: object) -> str:
    """Canonical JSON text of a storable value. ASCII takes the fast path: its code point order is that of UTF-16."""
    plain = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return plain if plain.isascii() else canonical(value).decode()


def payload_of(row: Stored) -> dict[str, Any]:
    """The parsed payload of a row."""
    found: dict[str, Any] = json.loads(row.payload)
    return found
