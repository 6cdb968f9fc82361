"""Rewrites: candidate, promoted, demoted, quarantined, by the rule that rode on the proposal; cold is the reader's."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from msgspec import field
from msgspec.structs import replace

from eventlog.chain import microseconds

from .projection import Fold, Row, State


class RewriteState(State, frozen=True, kw_only=True):
    """A rewrite and its record. `anchor`, `change` and `rule` are as proposed; `last_at` is microseconds since 1970."""

    rewrite: str = ""
    anchor: dict[str, str] = field(default_factory=dict)
    change: dict[str, str] = field(default_factory=dict)
    rule: dict[str, int | str] = field(default_factory=dict)
    source: str = ""
    confidence: int = 0
    proposed_by: str = ""
    status: str = "candidate"
    wins: int = 0
    losses: int = 0
    consecutive_wins: int = 0
    consecutive_losses: int = 0
    promoted_since: int | None = None
    last_at: int = 0


def is_cold(state: RewriteState, now: datetime) -> bool:
    """Whether a promoted rewrite was idle for longer than its rule allows, as of an explicit `now`."""
    if state.status != "promoted":
        return False
    days = timedelta(days=int(state.rule["cold_after_days"]))
    return microseconds(now) - state.last_at > days // timedelta(microseconds=1)


def _won(state: RewriteState, row: Row) -> RewriteState:
    streak = state.consecutive_wins + 1
    is_promoted = state.status in {"candidate", "demoted"} and streak >= int(state.rule["wins_to_promote"])
    return replace(
        state,
        wins=state.wins + 1,
        consecutive_wins=streak,
        consecutive_losses=0,
        status="promoted" if is_promoted else state.status,
        promoted_since=row.position if is_promoted else state.promoted_since,
    )


def _lost(state: RewriteState) -> RewriteState:
    streak = state.consecutive_losses + 1
    is_demoted = state.status == "promoted" and streak >= int(state.rule["losses_to_demote"])
    return replace(
        state,
        losses=state.losses + 1,
        consecutive_losses=streak,
        consecutive_wins=0,
        status="demoted" if is_demoted else state.status,
        promoted_since=None if is_demoted else state.promoted_since,
    )


def _proposed(row: Row) -> RewriteState:
    rule: dict[str, Any] = row.record("rule")
    return RewriteState(
        rewrite=row.text("rewrite"),
        anchor=row.record("anchor"),
        change=row.record("change"),
        rule=rule,
        source=row.text("source"),
        confidence=row.number("confidence"),
        proposed_by=row.text("run"),
    )


def _fold(state: RewriteState, row: Row) -> RewriteState:
    if not state.rule and row.type in {"RewriteWon", "RewriteLost"}:
        return state  # never proposed, so no rule decides it
    match row.type:
        case "RewriteProposed":
            state = _proposed(row)
        case "RewriteWon":
            state = _won(state, row)
        case "RewriteLost":
            state = _lost(state)
        case _:
            state = replace(state, rewrite=row.text("piece"), status="quarantined", promoted_since=None)
    return replace(state, last_at=row.moment)


def _key(row: Row) -> str | None:
    if row.type == "MemoryQuarantined":
        return row.text("piece") if row.text("kind") == "rewrite" else None
    return row.text("rewrite")


REWRITES = Fold(
    name="rewrites",
    version=1,
    reads={
        "RewriteProposed": ("rewrite", "anchor", "change", "rule", "source", "confidence", "run"),
        "RewriteWon": ("rewrite", "run", "control_runs"),
        "RewriteLost": ("rewrite", "run", "control_runs"),
        "MemoryQuarantined": ("piece", "kind"),
    },
    initial=RewriteState(),
    key=_key,
    fold=_fold,
    rests_on={
        "RewriteProposed": ("run",),
        "RewriteWon": ("run", "control_runs"),
        "RewriteLost": ("run", "control_runs"),
    },
)
