"""Operations that each kind of step is expected to cause. Pure."""

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
"""Table of the seed documents. A kind without operations is expected to change nothing."""


def expected_ops(table: OpsByStepKind, kind: str | None) -> frozenset[str]:
    """Operations expected of a kind of step: none for a kind missing in the table, all of the table for None."""
    return frozenset().union(*table.values()) if kind is None else table.get(kind, NONE)
