"""Traces from outside: the spans that were sent, kept as they came beside the events that were made of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import BlobAddress, Count, Event, Name

SpanId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
"""The id of a span within its trace, in hexadecimal."""

TraceSource = Literal["otlp", "file"]
"""Where spans came from: `POST /v1/traces`, or a file of `flywheel import`."""


class SpansKept(Event):
    """Spans of one trace came together. `raw` is a blob with all of them as they came, in JSON.

    The events of the run between the previous one and this one were made of these spans by the mapping of that name.
    `scores` is the number of evaluation results in them.
    """

    type: Literal["SpansKept"] = "SpansKept"
    run: Name
    spans: Annotated[tuple[SpanId, ...], Field(min_length=1)]
    raw: BlobAddress
    mapping: Name
    source: TraceSource
    scores: Count
