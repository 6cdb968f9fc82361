"""Candidate, promoted, demoted, retired, quarantined: what becomes of any piece of memory, by the rule it came with.

Only trials promote, demote and retire; the run that a piece was found in is never part of one. Cold is the reader's.
Every way back begins with a new proposal: a demoted, cold or retired piece is a candidate again, with evidence that
begins anew. A quarantined one stays quarantined and may be tried again; only paired evidence clears it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from msgspec.structs import replace

from eventlog.chain import microseconds

from .engine.projection import EventRow, FoldState
from .evidence import (
    Evidence,
    Paired,
    Rule,
    Seeds,
    Trial,
    add_trial,
    is_better,
    is_spent,
    is_trial,
    judge_adoption,
    rule_of,
)

_DAY = timedelta(days=1) // timedelta(microseconds=1)
_WHOLE = 1_000_000


class Candidacy(FoldState, frozen=True, kw_only=True):
    """How a piece stands. `rule` is as proposed; `last_at` is microseconds since 1970.

    `wins` and `losses` are of all treated runs, the streaks since it became a candidate. `treated` is the evidence of
    its present candidacy, or of its last; `withheld` that of the runs that did without it, since it was promoted.
    `is_open` says of a quarantined one that it may be tried again. `proposed_by` is empty where no run found it.
    """

    rule: Rule | None = None
    source: str = ""
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


C = TypeVar("C", bound=Candidacy)


def is_cold(state: Candidacy, now: datetime) -> bool:
    """Whether a promoted piece was idle for longer than its rule allows, as of an explicit `now`."""
    return _is_idle(state, microseconds(now))


def piece_status(state: Candidacy, now: datetime) -> str:
    """What a piece is as of an explicit `now`."""
    return "cold" if is_cold(state, now) else state.status


def cold_ones(states: Mapping[str, Candidacy], now: datetime) -> frozenset[str]:
    """The pieces that are cold as of an explicit `now`: they enter no memory."""
    return frozenset(key for key, state in states.items() if is_cold(state, now))


def may_return(states: Mapping[str, Candidacy], now: datetime) -> frozenset[str]:
    """The pieces that a new proposal brings back, as of an explicit `now`."""
    return frozenset(
        key
        for key, state in states.items()
        if piece_status(state, now) in {"demoted", "retired", "cold"}
        or (state.status == "quarantined" and not state.is_open)
    )


def worth(state: Candidacy) -> int:
    """What its treated runs say of it, in millionths: (wins + 1) / (runs + 2), so that losses lower it."""
    return _WHOLE * (state.treated.wins + 1) // (state.treated.k + 2)


def worth_now(state: Candidacy, now: datetime) -> int:
    """Its worth as of an explicit `now`: half of it is left after as many idle days as its rule allows.

    Runs that did without it and passed all the same lower it too, as losses do.
    """
    against = state.withheld.wins
    known = _WHOLE * (state.treated.wins + 1) // (state.treated.k + against + 2)
    allowed = 0 if state.rule is None else state.rule.cold_after_days
    idle = max(0, microseconds(now) - state.last_at) // _DAY
    return known * allowed // (allowed + idle) if allowed + idle else known


def _is_idle(state: Candidacy, moment: int) -> bool:
    if state.status != "promoted" or state.rule is None:
        return False
    return moment - state.last_at > state.rule.cold_after_days * _DAY


def says_nothing_new(state: Candidacy, row: EventRow) -> bool:
    """Whether a proposal is of a piece that is on trial or in use."""
    in_use = state.status == "promoted" and not _is_idle(state, row.moment)
    return state.rule is not None and (state.is_on_trial or in_use)


def propose(state: C, row: EventRow) -> C:
    """As it stands after a first proposal, or one that brings it back."""
    is_quarantined = state.status == "quarantined"
    rule = rule_of(row.record("rule"))
    return replace(
        state,
        rule=rule,
        source=row.text("source"),
        proposed_by=row.maybe_text("run") or "",
        status="quarantined" if is_quarantined else "candidate",
        is_open=is_quarantined and isinstance(rule, Paired),
        consecutive_wins=0,
        consecutive_losses=0,
        treated=Evidence(),
        withheld=Evidence(),
        promoted_since=None,
        last_at=row.moment,
    )


def trial_told(state: C, row: EventRow, *, won: bool, is_withheld: bool) -> C:
    """As it stands after a trial of it, with `run`, `control_runs` and `control_successes`."""
    rule, controls = state.rule, row.records("control_runs")
    if rule is None or state.proposed_by in {row.text("run"), *controls}:
        return state  # never proposed, so no rule decides it; or the run that proposed it
    trial = Trial(won=won, controls=len(controls), successes=row.number("control_successes"))
    if not is_trial(rule, trial):
        return state
    state = _count_withheld(state, rule, trial) if is_withheld else _count_treated(state, rule, trial, row)
    return replace(state, last_at=row.moment)


def quarantine(state: C, row: EventRow) -> C:
    """As it stands after it was taken out."""
    return replace(state, status="quarantined", is_open=False, promoted_since=None, last_at=row.moment)


def _count_treated(state: C, rule: Rule, trial: Trial, row: EventRow) -> C:
    state = _count_evidence(state, won=trial.won)
    if isinstance(rule, Seeds):
        return _by_streaks(state, rule, row)
    if not state.is_on_trial:
        return state
    after = add_trial(state.treated, trial)
    match judge_adoption(state.treated, rule, after):
        case "adopt":
            state = replace(state, status="promoted", promoted_since=row.position, is_open=False)
        case "give_up":
            status = "retired" if state.status == "candidate" else state.status
            state = replace(state, status=status, is_open=False)
        case None:
            pass
    return replace(state, treated=after)


def _count_evidence(state: C, *, won: bool) -> C:
    return replace(
        state,
        wins=state.wins + won,
        losses=state.losses + (not won),
        consecutive_wins=state.consecutive_wins + 1 if won else 0,
        consecutive_losses=0 if won else state.consecutive_losses + 1,
    )


def _by_streaks(state: C, rule: Seeds, row: EventRow) -> C:
    if state.status in {"candidate", "demoted"} and state.consecutive_wins >= rule.wins_to_promote:
        return replace(state, status="promoted", promoted_since=row.position)
    if state.status == "promoted" and state.consecutive_losses >= rule.losses_to_demote:
        return replace(state, status="demoted", promoted_since=None)
    return state


def _count_withheld(state: C, rule: Rule, trial: Trial) -> C:
    """Siblings that did without it and did better demote it; after the last look the evidence begins anew."""
    if isinstance(rule, Seeds) or state.status != "promoted":
        return state
    after = add_trial(state.withheld, trial)
    if is_better(state.withheld, rule, after):
        return replace(state, withheld=after, status="demoted", promoted_since=None)
    return replace(state, withheld=Evidence() if is_spent(rule, after) else after)
