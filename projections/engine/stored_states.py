"""States as the tables keep them: a JSON array of the fields' values, without the last ones that are defaults.

The names of the fields, which every row would repeat, are a third of a state as a JSON object.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, astuple, fields

S = TypeVar("S", bound=msgspec.Struct)

_NONE = object()
"""Equal to no value: the field has no default."""


@lru_cache(maxsize=256)
def stored_class(kind: type[S]) -> type[S]:
    """A subclass of a state's class that is decoded from an array."""
    own = {"bases": (kind,), "array_like": True, "frozen": True, "kw_only": True}
    return msgspec.defstruct(f"Stored{kind.__name__}", [], **own)  # type: ignore[arg-type,return-value]


@lru_cache(maxsize=256)
def _defaults(kind: type[msgspec.Struct]) -> tuple[Any, ...]:
    return tuple(_default(field) for field in fields(kind))


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return _NONE if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def encode_state(state: msgspec.Struct) -> bytes:
    """A state as it is kept."""
    values, defaults = astuple(state), _defaults(type(state))
    end = len(values)
    while end and values[end - 1] == defaults[end - 1]:
        end -= 1
    return msgspec.json.encode(values[:end])


def restore_state(kind: type[S], found: S) -> S:
    """A decoded state as an object of its own class."""
    return kind(**asdict(found))
