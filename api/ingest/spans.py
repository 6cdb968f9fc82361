"""A span as it came, whatever form it came in. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventlog.chain import EXACT
from projections.engine.decoders import decoder_of

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

_TRACE: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN: Final = re.compile(r"(?!0{16})[0-9a-f]{16}")
ERROR: Final = 2
"""The status code of a span that failed."""


class SpanEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened within a span; `at` is in nanoseconds since 1970."""

    name: str = ""
    at: int = 0
    attributes: dict[str, Any] = {}
    dropped_attributes: int = 0


class SpanLink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another span that a span is about."""

    trace: str = ""
    span: str = ""
    state: str = ""
    attributes: dict[str, Any] = {}


class Span(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A span with its resource and scope. Ids are in hexadecimal, times in nanoseconds since 1970.

    Attributes are plain JSON: bytes are base64, numbers that JSON does not have are their names.
    """

    trace: str
    span: str
    parent: str = ""
    state: str = ""
    flags: int = 0
    name: str = ""
    kind: int = 0
    start: int = 0
    end: int = 0
    attributes: dict[str, Any] = {}
    dropped_attributes: int = 0
    events: tuple[SpanEvent, ...] = ()
    dropped_events: int = 0
    links: tuple[SpanLink, ...] = ()
    dropped_links: int = 0
    status: int = 0
    status_message: str = ""
    resource: dict[str, Any] = {}
    scope: str = ""
    scope_version: str = ""
    scope_attributes: dict[str, Any] = {}

    @property
    def is_root(self) -> bool:
        """True if the span is the first of its trace."""
        return not self.parent


def span_fault(span: Span) -> str | None:
    """What is wrong with the ids or times of a span; None if nothing is."""
    if not _TRACE.fullmatch(span.trace):
        return f"trace id {span.trace[:40]!r} is not 16 bytes that are not all zero"
    if not _SPAN.fullmatch(span.span):
        return f"span id {span.span[:40]!r} is not 8 bytes that are not all zero"
    if span.parent and not _SPAN.fullmatch(span.parent):
        return f"parent span id {span.parent[:40]!r} is not 8 bytes that are not all zero"
    if not (0 <= span.start < 2**64 and 0 <= span.end < 2**64):
        return f"span {span.span} has a time that is not in nanoseconds since 1970"
    return None


def raw_spans(spans: Sequence[Span]) -> bytes:
    """Spans in the form in which they are kept: a JSON list, so that a later mapping can read them again."""
    return msgspec.json.encode(spans)


def read_raw_spans(body: bytes) -> tuple[Span, ...]:
    """The spans of a kept blob."""
    found: tuple[Span, ...] = decoder_of(tuple[Span, ...]).decode(body)
    return found


def plain_number(value: float) -> Json:
    """A number as JSON can hold it; what it cannot is its name."""
    return value if math.isfinite(value) else str(value)


def whole_number(value: object) -> int | None:
    """An attribute that is a natural number which the log can hold, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > EXACT:  # noqa: PLR0124
        return None
    found = int(value)
    return found if found == value and found >= 0 else None


def attribute_text(attributes: Mapping[str, Any], *names: str) -> str:
    """The first of these attributes that is a text with something in it, without NUL, which no event can hold."""
    for name in names:
        found = attributes.get(name)
        if isinstance(found, str) and found:
            return found.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return ""
