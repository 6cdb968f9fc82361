"""References from events to blobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel

from .events import EVENT_TYPES
from .events.event import NamesBlob
from .store import Position, Recorded


@dataclass(frozen=True, slots=True)
class Mention:
    """The number of events that name a blob, and the position and type of the first."""

    count: int
    first: Position
    type: str


def blob_addresses(event: BaseModel) -> tuple[str, ...]:
    """Addresses of all blobs that an event names, without duplicates, in field order."""
    return tuple(dict.fromkeys(_of_model(event)))


def mentions(events: Iterable[Recorded]) -> dict[str, Mention]:
    """Every address that the events name, with its mention."""
    found: dict[str, Mention] = {}
    for recorded in events:
        for address in blob_addresses(recorded.event):
            before = found.get(address)
            if before is None:
                found[address] = Mention(1, recorded.position, recorded.event.type)
            else:
                found[address] = Mention(before.count + 1, before.first, before.type)
    return found


def count_references(named: Mapping[str, Mention], parents: Mapping[str, str | None]) -> dict[str, int]:
    """Reference count of each address, by events and by messages that are themselves referenced.

    `parents` maps each stored message to the address of the message before it. Addresses not in the result are orphans.
    """
    counts = {address: mention.count for address, mention in named.items()}
    waiting = list(counts)
    while waiting:
        parent = parents.get(waiting.pop())
        if parent is not None:
            if parent not in counts:
                waiting.append(parent)
            counts[parent] = counts.get(parent, 0) + 1
    return counts


def _of_model(model: BaseModel) -> Iterator[str]:
    for name in _address_fields(type(model)):
        field = type(model).model_fields[name]
        yield from _of_value(getattr(model, name), is_address=_is_marked(field.annotation, field.metadata))


def _of_value(value: object, *, is_address: bool) -> Iterator[str]:
    match value:
        case BaseModel():
            yield from _of_model(value)
        case str() if is_address:
            yield value
        case tuple():
            for item in value:
                yield from _of_value(item, is_address=is_address)
        case dict():
            for item in value.values():
                yield from _of_value(item, is_address=is_address)


@cache
def _address_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """The fields of a model that are or contain an address. Models are never recursive."""
    return tuple(
        name
        for name, field in model.model_fields.items()
        if _is_marked(field.annotation, field.metadata) or any(map(_address_fields, _models(field.annotation)))
    )


def _is_marked(annotation: Any, metadata: Iterable[object] = ()) -> bool:
    if any(isinstance(item, NamesBlob) for item in metadata):
        return True
    if get_origin(annotation) is Literal:
        return False
    inner, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (None,)
    if marks:
        return _is_marked(inner, marks)
    return any(_is_marked(part) for part in get_args(annotation))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _models(part)


NAMING = tuple(kind for kind, model in EVENT_TYPES.items() if _address_fields(model))
"""The event types that can name a blob."""
