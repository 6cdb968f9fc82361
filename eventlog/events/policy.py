"""What an operator sets: prices and who may call."""

from __future__ import annotations

from typing import Literal

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
