"""The base class of events, a frozen, closed, strictly typed model without floats, and shared field types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from ..chain import EXACT

Whole = Annotated[int, Field(ge=-EXACT, le=EXACT)]
"""An integer that JSON represents exactly."""

Count = Annotated[int, Field(ge=0, le=EXACT)]
"""A natural number."""

Micro = Whole
"""A number in millionths: a score of 1 is 1_000_000, a dollar is 1_000_000 micro-dollars."""

ScoreMicro = Annotated[int, Field(ge=0, le=1_000_000)]
"""A score between 0 and 1 in millionths."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 in hexadecimal."""


@dataclass(frozen=True, slots=True)
class NamesBlob:
    """Annotation that marks a field as the address of a blob."""


BlobAddress = Annotated[Digest, NamesBlob()]
"""The address of a blob that was put before the event was appended. `eventlog/references.py` finds these fields."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
"""An identifier: the name of a run, a template, a benchmark."""


class FrozenModel(BaseModel):
    """A value object: frozen, without unknown fields, without type coercion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Event(FrozenModel):
    """Base class of events. Subclasses add `type: Literal["..."]`; class and field names are the storage format."""

    schema_version: ClassVar[int] = 1
