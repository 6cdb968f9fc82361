"""Which operations a kind of step is meant to cause, by site, and of which kind a step of a plan is. Pure."""

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
"""The seeds' table, of their boat marketplace. A kind without operations is meant to change nothing."""

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
"""Everything our sites record. A site that is not here takes its table at construction.

To enter the draw or ask for a call-back is what its step is meant to do; whether it is granted, the oracle says.
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
"""The caption of a button, in lower case, to the kind of step that it is."""

_KINDS: Final[Mapping[str, str]] = {
    "navigate": "navigate",
    "click": "navigate",
    "fill_field": "fill",
    "select_option": "fill",
}


def expected_ops(table: OpsByStepKind, kind: str | None) -> frozenset[str]:
    """What a kind of step is meant to cause: nothing for one the table lacks, all of the table where it isn't known."""
    return frozenset().union(*table.values()) if kind is None else table.get(kind, NONE)


def step_kind(site: str, step_type: str, label: str | None) -> str | None:
    """The kind of a plan's step on a site: navigate, fill, or what its button does; None where that isn't known."""
    known = _KINDS.get(step_type)
    return known or KINDS_BY_SITE.get(site, {}).get((label or "").strip().casefold())
