"""Candidacy: the life cycle of a piece of memory, decided by the rule it was proposed with.

A piece is candidate, promoted, demoted, retired or quarantined. Only trials promote, demote and retire; the run in
which a piece was found is never part of a trial. "Cold" is computed at read time. A new proposal makes a demoted, cold
or retired piece a candidate again, with fresh evidence. A quarantined piece stays quarantined but may then be tried
again; only paired evidence clears it.
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
    is_by_seed,
    is_spent,
    is_trial,
    is_turning,
    judge_adoption,
    rule_of,
)

_DAY = timedelta(days=1) // timedelta(microseconds=1)
_WHOLE = 1_000_000


class Candidacy(FoldState, frozen=True, kw_only=True):
    """The status of a piece and its evidence. `rule` is as proposed; `last_at` is in microseconds since 1970.

    A treated run carries the piece as a candidate; a withheld run leaves out the promoted piece. `wins` and `losses`
    count all treated runs, the streaks those since it became a candidate. `treated` is the evidence of the current or
    last candidacy, `withheld` the evidence since promotion. `is_open` means that a quarantined piece may be tried
    again. `proposed_by` is the run that found the piece, or empty.
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
        """True if treated runs may carry the piece: it is a candidate, or a quarantined piece that may be cleared."""
        return self.status == "candidate" or self.is_open

    @property
    def controls(self) -> int:
        """Number of siblings with which the rule compares a run."""
        return self.rule.controls if isinstance(self.rule, Paired) else 0

    @property
    def is_by_seed(self) -> bool:
        """True if only one trial at a seed counts."""
        return is_by_seed(self.rule)

    @property
    def is_suspect(self) -> bool:
        """True if a promoted piece's withheld runs did better so far, so that it may do harm."""
        return self.status == "promoted" and is_turning(self.withheld)


C = TypeVar("C", bound=Candidacy)


def is_cold(state: Candidacy, now: datetime) -> bool:
    """True if a promoted piece has been idle for longer than its rule allows, as of an explicit `now`."""
    return _is_idle(state, microseconds(now))


def piece_status(state: Candidacy, now: datetime) -> str:
    """Status of a piece as of an explicit `now`, including "cold"."""
    return "cold" if is_cold(state, now) else state.status


def cold_ones(states: Mapping[str, Candidacy], now: datetime) -> frozenset[str]:
    """Ids of the pieces that are cold as of an explicit `now`: they are excluded from every memory."""
    return frozenset(key for key, state in states.items() if is_cold(state, now))


def may_return(states: Mapping[str, Candidacy], now: datetime) -> frozenset[str]:
    """Ids of the pieces that a new proposal would reopen, as of an explicit `now`."""
    return frozenset(
        key
        for key, state in states.items()
        if piece_status(state, now) in {"demoted", "retired", "cold"}
        or (state.status == "quarantined" and not state.is_open)
    )


def worth(state: Candidacy) -> int:
    """Estimated success rate of the piece's treated runs, in millionths: (wins + 1) / (runs + 2)."""
    return _WHOLE * (state.treated.wins + 1) // (state.treated.k + 2)


def worth_now(state: Candidacy, now: datetime) -> int:
    """Worth of a piece as of an explicit `now`; it is halved after as many idle days as the rule allows.

    Runs that passed with the piece withheld lower it as losses do.
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
    """True if the proposal has no effect, because its piece is on trial or in use."""
    in_use = state.status == "promoted" and not _is_idle(state, row.moment)
    return state.rule is not None and (state.is_on_trial or in_use)


def propose(state: C, row: EventRow) -> C:
    """The state after a first proposal, or after one that reopens the piece."""
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
    """The state after a trial, from an event with `run`, `control_runs`, `control_successes` and `env_seed`."""
    rule, controls = state.rule, row.records("control_runs")
    if rule is None or state.proposed_by in {row.text("run"), *controls}:
        return state  # the piece was never proposed, so it has no rule; or this run proposed it
    seed, successes = row.maybe_number("env_seed"), row.number("control_successes")
    trial = Trial(won=won, controls=len(controls), successes=successes, seed=seed)
    if not is_trial(state.withheld if is_withheld else state.treated, rule, trial):
        return state
    state = _count_withheld(state, rule, trial) if is_withheld else _count_treated(state, rule, trial, row)
    return replace(state, last_at=row.moment)


def quarantine(state: C, row: EventRow) -> C:
    """The state after the piece was quarantined."""
    return replace(state, status="quarantined", is_open=False, promoted_since=None, last_at=row.moment)


def _count_treated(state: C, rule: Rule, trial: Trial, row: EventRow) -> C:
    state = _count_evidence(state, won=trial.won)
    if isinstance(rule, Seeds):
        return _by_streaks(state, rule, row)
    if not state.is_on_trial:
        return state
    after = add_trial(state.treated, rule, trial)
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
    """Demote the piece if runs that withheld it did better. The evidence is reset after the last look."""
    if isinstance(rule, Seeds) or state.status != "promoted":
        return state
    after = add_trial(state.withheld, rule, trial)
    if is_better(state.withheld, rule, after):
        return replace(state, withheld=after, status="demoted", promoted_since=None)
    return replace(state, withheld=Evidence() if is_spent(rule, after) else after)
