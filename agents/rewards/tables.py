"""Operations that each kind of step is expected to cause, by site, and the kind of a plan's step. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OpsByStepKind = Mapping[str, frozenset[str]]

NONE: Final[frozenset[str]] = frozenset()

DEFAULT_OPS: Final[OpsByStepKind] = {
    "filter": NONE,
    "navigate": NONE,
    "submit_lead": frozenset({"lead_submitted"}),
    "phone_reveal": frozenset({"phone_revealed"}),
    "consent": frozenset({"consent_set"}),
}
"""Table of the seeds' boat marketplace. A kind without operations is expected to change nothing."""

OPS_BY_SITE: Final[Mapping[str, OpsByStepKind]] = {
    "marketplace": {
        "filter": NONE,
        "navigate": NONE,
        "submit_lead": frozenset({"lead_submitted"}),
        "phone_reveal": frozenset({"phone_revealed"}),
        "contact": frozenset({"contact_started"}),
        "save_entry": frozenset({"entry_saved"}),
        "watch": frozenset({"watch_started"}),
        "draw": frozenset({"draw_entered"}),
    },
    "helpdesk": {
        "filter": NONE,
        "navigate": NONE,
        "check": NONE,
        "assign": frozenset({"ticket_assigned"}),
        "reply": frozenset({"reply_sent"}),
        "merge": frozenset({"ticket_merged"}),
        "call_back": frozenset({"callback_asked"}),
    },
}
"""All operations that our sites record. A site that is not listed gets its table at construction.

A step that enters the draw or asks for a call-back is expected to do so; the oracle says whether it is granted.
"""

KINDS_BY_SITE: Final[Mapping[str, Mapping[str, str]]] = {
    "marketplace": {
        "search": "filter",
        "request details": "submit_lead",
        "show phone number": "phone_reveal",
        "start a contact request": "contact",
        "save gear ratio": "save_entry",
        "watch this boat": "watch",
        "enter the draw": "draw",
    },
    "helpdesk": {
        "show": "filter",
        "find similar": "filter",
        "check for personal data": "check",
        "assign checked tickets": "assign",
        "send": "reply",
        "merge checked tickets into this one": "merge",
        "ask for a slot": "call_back",
    },
}
"""Kind of step by the caption of its button, in lower case."""

_KINDS: Final[Mapping[str, str]] = {
    "navigate": "navigate",
    "click": "navigate",
    "fill_field": "fill",
    "select_option": "fill",
}


def expected_ops(table: OpsByStepKind, kind: str | None) -> frozenset[str]:
    """Operations expected of a kind of step: none for a kind missing in the table, all of the table for None."""
    return frozenset().union(*table.values()) if kind is None else table.get(kind, NONE)


def step_kind(site: str, step_type: str, label: str | None) -> str | None:
    """Kind of a plan's step on a site: navigate, fill, or the action of its button; None if it is unknown."""
    known = _KINDS.get(step_type)
    return known or KINDS_BY_SITE.get(site, {}).get((label or "").strip().casefold())
