"""Rewrites: candidate, promoted, demoted, retired, quarantined, by the rule that rode on the proposal.

Only trials promote, demote and retire, and the run that proposed a rewrite is never part of one. Cold is the reader's.
Every way back begins with a new proposal: a demoted, cold or retired rewrite is a candidate again, with evidence that
begins anew. A quarantined one stays quarantined and may be tried again; only paired evidence clears it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import field
from msgspec.structs import replace

from eventlog.chain import microseconds

from .evidence import Evidence, Paired, Rule, Seeds, Trial, adopted, is_better, is_spent, is_trial, rule_of, tried
from .projection import Fold, Row, State

_DAY = timedelta(days=1) // timedelta(microseconds=1)


class RewriteState(State, frozen=True, kw_only=True):
    """A rewrite and its record. `anchor`, `change` and `rule` are as proposed; `last_at` is microseconds since 1970.

    `wins` and `losses` are of all treated runs, the streaks since it became a candidate. `treated` is the evidence of
    its present candidacy, or of its last; `withheld` that of the runs that did without it, since it was promoted.
    `is_open` says of a quarantined one that it may be tried again.
    """

    rewrite: str = ""
    anchor: dict[str, str] = field(default_factory=dict)
    change: dict[str, str] = field(default_factory=dict)
    rule: Rule | None = None
    source: str = ""
    confidence: int = 0
    proposed_by: str = ""
    status: str = "candidate"
    wins: int = 0
    losses: int = 0
    consecutive_wins: int = 0
    consecutive_losses: int = 0
    treated: Evidence = Evidence()
    withheld: Evidence = Evidence()
    is_open: bool = False
    promoted_since: int | None = None
    last_at: int = 0

    @property
    def is_on_trial(self) -> bool:
        """Whether treated runs may carry it: a candidate, or a quarantined one that may be cleared."""
        return self.status == "candidate" or self.is_open

    @property
    def controls(self) -> int:
        """How many siblings its rule compares a run with."""
        return self.rule.controls if isinstance(self.rule, Paired) else 0


def is_cold(state: RewriteState, now: datetime) -> bool:
    """Whether a promoted rewrite was idle for longer than its rule allows, as of an explicit `now`."""
    return _is_idle(state, microseconds(now))


def status_of(state: RewriteState, now: datetime) -> str:
    """What a rewrite is as of an explicit `now`."""
    return "cold" if is_cold(state, now) else state.status


def cold_ones(states: Mapping[str, RewriteState], now: datetime) -> frozenset[str]:
    """The rewrites that are cold as of an explicit `now`: they enter no memory."""
    return frozenset(key for key, state in states.items() if is_cold(state, now))


def may_return(states: Mapping[str, RewriteState], now: datetime) -> frozenset[str]:
    """The rewrites that a new proposal brings back, as of an explicit `now`."""
    return frozenset(
        key
        for key, state in states.items()
        if status_of(state, now) in {"demoted", "retired", "cold"}
        or (state.status == "quarantined" and not state.is_open)
    )


def _is_idle(state: RewriteState, moment: int) -> bool:
    if state.status != "promoted" or state.rule is None:
        return False
    return moment - state.last_at > state.rule.cold_after_days * _DAY


def _proposed(state: RewriteState, row: Row) -> RewriteState:
    """A first proposal, or one that brings it back; of one that is on trial or in use it says nothing new."""
    is_new, is_quarantined = state.rule is None, state.status == "quarantined"
    if not is_new and (state.is_on_trial or (state.status == "promoted" and not _is_idle(state, row.moment))):
        return state
    rule = rule_of(row.record("rule"))
    return replace(
        state,
        rewrite=row.text("rewrite"),
        anchor=row.record("anchor"),
        change=row.record("change"),
        rule=rule,
        source=row.text("source"),
        confidence=row.number("confidence"),
        proposed_by=row.text("run"),
        status="quarantined" if is_quarantined else "candidate",
        is_open=is_quarantined and isinstance(rule, Paired),
        consecutive_wins=0,
        consecutive_losses=0,
        treated=Evidence(),
        withheld=Evidence(),
        promoted_since=None,
        last_at=row.moment,
    )


def _treated(state: RewriteState, rule: Rule, trial: Trial, row: Row) -> RewriteState:
    state = _counted(state, won=trial.won)
    if isinstance(rule, Seeds):
        return _by_streaks(state, rule, row)
    if not state.is_on_trial:
        return state
    after = tried(state.treated, trial)
    match adopted(state.treated, rule, after):
        case "adopt":
            state = replace(state, status="promoted", promoted_since=row.position, is_open=False)
        case "give_up":
            status = "retired" if state.status == "candidate" else state.status
            state = replace(state, status=status, is_open=False)
        case None:
            pass
    return replace(state, treated=after)


def _counted(state: RewriteState, *, won: bool) -> RewriteState:
    return replace(
        state,
        wins=state.wins + won,
        losses=state.losses + (not won),
        consecutive_wins=state.consecutive_wins + 1 if won else 0,
        consecutive_losses=0 if won else state.consecutive_losses + 1,
    )


def _by_streaks(state: RewriteState, rule: Seeds, row: Row) -> RewriteState:
    if state.status in {"candidate", "demoted"} and state.consecutive_wins >= rule.wins_to_promote:
        return replace(state, status="promoted", promoted_since=row.position)
    if state.status == "promoted" and state.consecutive_losses >= rule.losses_to_demote:
        return replace(state, status="demoted", promoted_since=None)
    return state


def _withheld(state: RewriteState, rule: Rule, trial: Trial) -> RewriteState:
    """Siblings that did without it and did better demote it; after the last look the evidence begins anew."""
    if isinstance(rule, Seeds) or state.status != "promoted":
        return state
    after = tried(state.withheld, trial)
    if is_better(state.withheld, rule, after):
        return replace(state, withheld=after, status="demoted", promoted_since=None)
    return replace(state, withheld=Evidence() if is_spent(rule, after) else after)


def _tried(state: RewriteState, row: Row) -> RewriteState:
    rule, controls = state.rule, row.records("control_runs")
    if rule is None or state.proposed_by in {row.text("run"), *controls}:
        return state  # never proposed, so no rule decides it; or the run that proposed it
    is_general = row.type == "PieceTried"
    won = row.flag("won") if is_general else row.type == "RewriteWon"
    trial = Trial(won=won, controls=len(controls), successes=row.number("control_successes"))
    if not is_trial(rule, trial):
        return state
    is_withheld = is_general and row.flag("withheld")
    state = _withheld(state, rule, trial) if is_withheld else _treated(state, rule, trial, row)
    return replace(state, last_at=row.moment)


def _quarantined(state: RewriteState, row: Row) -> RewriteState:
    return replace(
        state,
        rewrite=row.text("piece"),
        status="quarantined",
        is_open=False,
        promoted_since=None,
        last_at=row.moment,
    )


def _fold(state: RewriteState, row: Row) -> RewriteState:
    match row.type:
        case "RewriteProposed":
            return _proposed(state, row)
        case "MemoryQuarantined":
            return _quarantined(state, row)
        case _:
            return _tried(state, row)


def _key(row: Row) -> str | None:
    if row.type in {"MemoryQuarantined", "PieceTried"}:
        return row.text("piece") if row.text("kind") == "rewrite" else None
    return row.text("rewrite")


REWRITES = Fold(
    name="rewrites",
    version=2,
    reads={
        "RewriteProposed": ("rewrite", "anchor", "change", "rule", "source", "confidence", "run"),
        "RewriteWon": ("rewrite", "run", "control_runs", "control_successes"),
        "RewriteLost": ("rewrite", "run", "control_runs", "control_successes"),
        "PieceTried": ("piece", "kind", "run", "control_runs", "control_successes", "won", "withheld"),
        "MemoryQuarantined": ("piece", "kind"),
    },
    initial=RewriteState(),
    key=_key,
    fold=_fold,
    rests_on={
        "RewriteProposed": ("run",),
        "RewriteWon": ("run", "control_runs"),
        "RewriteLost": ("run", "control_runs"),
        "PieceTried": ("run", "control_runs"),
    },
)
