"""What an operator sets: prices, who may call, and what of history no longer counts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, Digest, Event, Name


class PriceBookSet(Event):
    """Prices in micro-dollars: an action, a second of wall time, a thousand tokens."""

    type: Literal["PriceBookSet"] = "PriceBookSet"
    version: Count
    per_action: Count
    per_second: Count
    per_thousand_input_tokens: Count
    per_thousand_output_tokens: Count


class TokenIssued(Event):
    """A bearer token exists; only its SHA-256 is known here."""

    type: Literal["TokenIssued"] = "TokenIssued"
    token: Name
    digest: Digest
    role: Literal["admin"]


class TokenRevoked(Event):
    """The token of this name is no longer accepted."""

    type: Literal["TokenRevoked"] = "TokenRevoked"
    token: Name
    reason: str


class RunsWithdrawn(Event):
    """From here on nothing is learned from these runs: folds of what was learned go on as if they had never been."""

    type: Literal["RunsWithdrawn"] = "RunsWithdrawn"
    runs: Annotated[tuple[Name, ...], Field(min_length=1)]
    reason: Name


class SubjectErased(Event):
    """The key and the bytes of a subject were destroyed: what needs them answers *erased*."""

    type: Literal["SubjectErased"] = "SubjectErased"
    subject: Name
    reason: Name
