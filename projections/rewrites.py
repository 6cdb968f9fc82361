"""Rewrites: changes that recovery proposed for a step, with their candidacy."""

from __future__ import annotations

from typing import Any

from msgspec import field
from msgspec.structs import replace

from .candidacy import Candidacy, propose, quarantine, says_nothing_new, trial_told
from .engine.projection import EventRow, Fold


class RewriteState(Candidacy, frozen=True, kw_only=True):
    """A rewrite with its candidacy. `anchor` and `change` are as proposed."""

    rewrite: str = ""
    anchor: dict[str, str] = field(default_factory=dict)
    change: dict[str, Any] = field(default_factory=dict)
    confidence: int = 0


def _propose(state: RewriteState, row: EventRow) -> RewriteState:
    if says_nothing_new(state, row):
        return state
    return replace(
        propose(state, row),
        rewrite=row.text("rewrite"),
        anchor=row.record("anchor"),
        change=row.record("change"),
        confidence=row.number("confidence"),
    )


def _fold(state: RewriteState, row: EventRow) -> RewriteState:
    match row.type:
        case "RewriteProposed":
            return _propose(state, row)
        case "MemoryQuarantined":
            return replace(quarantine(state, row), rewrite=row.text("piece"))
        case "PieceTried":
            return trial_told(state, row, won=row.flag("won"), is_withheld=row.flag("withheld"))
        case _:
            return trial_told(state, row, won=row.type == "RewriteWon", is_withheld=False)


def _key(row: EventRow) -> str | None:
    if row.type in {"MemoryQuarantined", "PieceTried"}:
        return row.text("piece") if row.text("kind") == "rewrite" else None
    return row.text("rewrite")


REWRITES = Fold(
    name="rewrites",
    version=4,
    reads={
        "RewriteProposed": ("rewrite", "anchor", "change", "rule", "source", "confidence", "run"),
        "RewriteWon": ("rewrite", "run", "control_runs", "control_successes", "env_seed"),
        "RewriteLost": ("rewrite", "run", "control_runs", "control_successes", "env_seed"),
        "PieceTried": ("piece", "kind", "run", "control_runs", "control_successes", "won", "withheld", "env_seed"),
        "MemoryQuarantined": ("piece", "kind"),
    },
    initial=RewriteState(),
    is_kept=True,
    key=_key,
    fold=_fold,
    rests_on={
        "RewriteProposed": ("run",),
        "RewriteWon": ("run", "control_runs"),
        "RewriteLost": ("run", "control_runs"),
        "PieceTried": ("run", "control_runs"),
    },
)
