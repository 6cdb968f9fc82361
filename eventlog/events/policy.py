"""Operator decisions: prices, API tokens, withdrawn runs, erased subjects."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ..chain import EXACT
from .event import Count, Digest, Event, Name

TokenRole = Literal["read", "ingest", "operate", "admin"]
"""The rights of a token's holder over HTTP; each role includes those before it."""


class PriceBookSet(Event):
    """A price book took effect: micro-dollars for an action, a second of wall time, a thousand tokens."""

    type: Literal["PriceBookSet"] = "PriceBookSet"
    version: Count
    per_action: Count
    per_second: Count
    per_thousand_input_tokens: Count
    per_thousand_output_tokens: Count


class TokenIssued(Event):
    """A bearer token was issued; the log stores only its SHA-256."""

    schema_version: ClassVar[int] = 2
    type: Literal["TokenIssued"] = "TokenIssued"
    token: Name
    digest: Digest
    role: TokenRole


class TokenRevoked(Event):
    """The token of this name was revoked and is no longer accepted."""

    type: Literal["TokenRevoked"] = "TokenRevoked"
    token: Name
    reason: str


class RunsWithdrawn(Event):
    """The runs were withdrawn: from this position on, folds of learned state ignore them, including their past."""

    type: Literal["RunsWithdrawn"] = "RunsWithdrawn"
    runs: Annotated[tuple[Name, ...], Field(min_length=1)]
    reason: Name


class EventsDisowned(Event):
    """Events were disowned: from this position on, every fold leaves out what stands at these positions."""

    type: Literal["EventsDisowned"] = "EventsDisowned"
    positions: Annotated[tuple[Annotated[int, Field(ge=1, le=EXACT)], ...], Field(min_length=1)]
    reason: Name


class SubjectErased(Event):
    """The key and the bytes of a subject were destroyed; reads that need them answer *erased*."""

    type: Literal["SubjectErased"] = "SubjectErased"
    subject: Name
    reason: Name
