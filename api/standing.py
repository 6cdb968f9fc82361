"""How a rewrite stands, in words and numbers: evidence, next look, trials, and why it is what it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from eventlog.events import PieceTried, RewriteLost, RewriteWon
from eventlog.store import Recorded
from projections.candidacy import status_of
from projections.evidence import Evidence, Paired, Seeds, next_look
from projections.projection import Change
from projections.rewrites import RewriteState

from .decide import describe

LISTED = ("rewrite", "status", "wins", "losses", "trials", "U", "V", "controls_passed", "next_look", "step", "does")
TRIALS = ("since", "run", "tried", "won", "controls_passed", "k", "U", "V", "status")


def standing(state: RewriteState, now: datetime) -> dict[str, Any]:
    """A rewrite's row as of an explicit `now`, with its evidence; `next_look` is None where nothing is waited for."""
    row: dict[str, Any] = msgspec.to_builtins(state)
    evidence = _present(state)
    return {
        **row,
        "status": status_of(state, now),
        "trials": evidence.k,
        "U": evidence.u,
        "V": evidence.v,
        "controls_passed": _passed(evidence.control_successes, evidence.control_runs),
        "next_look": _next(state, evidence),
        "why": why(state, now),
        "step": state.anchor.get("intent"),
        "does": describe(state.change) if state.change else None,
    }


def why(state: RewriteState, now: datetime) -> str:
    """Why a rewrite is what it is as of `now`, in one line."""
    status, days = status_of(state, now), 0 if state.rule is None else state.rule.cold_after_days
    if status == "cold":
        return f"promoted, and without a trial for more than {days} days; a new proposal makes it a candidate again"
    if status == "quarantined" and not state.is_open:
        return "taken out by a rollback; a new proposal lets it be tried again, and paired evidence clears it"
    match state.rule:
        case Paired():
            return _by_pairs(state, state.rule, status)
        case Seeds():
            return _by_streaks(state, state.rule, status)
        case None:
            return "nobody proposed it"


def trials_of(recorded: Iterable[Recorded], changes: Sequence[Change[RewriteState]]) -> list[dict[str, Any]]:
    """A rewrite's trials in order, each with what its evidence came to; `changes` are its whole history."""
    after = {int(change.since): change.state for change in changes}
    found = []
    for item in recorded:
        event = item.event
        if isinstance(event, RewriteWon | RewriteLost | PieceTried):
            is_withheld = isinstance(event, PieceTried) and event.withheld
            won = event.won if isinstance(event, PieceTried) else isinstance(event, RewriteWon)
            state = after.get(int(item.position))
            evidence = None if state is None else state.withheld if is_withheld else state.treated
            found.append(
                {
                    "since": int(item.position),
                    "run": event.run,
                    "tried": "withheld" if is_withheld else "treated",
                    "won": won,
                    "controls_passed": _passed(event.control_successes, len(event.control_runs)),
                    "k": None if evidence is None else evidence.k,
                    "U": None if evidence is None else evidence.u,
                    "V": None if evidence is None else evidence.v,
                    "status": "withdrawn" if state is None else state.status,
                }
            )
    return found


def _present(state: RewriteState) -> Evidence:
    """The evidence that decides next: of withheld runs where it is in use, or was."""
    return state.withheld if state.status in {"promoted", "demoted"} else state.treated


def _passed(successes: int, runs: int) -> str:
    return f"{successes} of {runs}" if runs else ""


def _next(state: RewriteState, evidence: Evidence) -> int | None:
    waits = isinstance(state.rule, Paired) and (state.is_on_trial or state.status == "promoted")
    return next_look(evidence, state.rule) if waits and isinstance(state.rule, Paired) else None


def _by_streaks(state: RewriteState, rule: Seeds, status: str) -> str:
    if status == "promoted":
        return f"{rule.wins_to_promote} wins in a row; {rule.losses_to_demote} losses in a row would demote it"
    if status == "demoted":
        return f"{rule.losses_to_demote} losses in a row"
    return f"{state.consecutive_wins} wins in a row of {rule.wins_to_promote}"


def _by_pairs(state: RewriteState, rule: Paired, status: str) -> str:
    treated, withheld = _told(state.treated, rule), _told(state.withheld, rule)
    match status:
        case "promoted":
            return f"treated runs did better than their siblings: {treated}"
        case "demoted":
            return f"runs without it did better than their siblings: {withheld}"
        case "retired":
            return f"the last look is past: {treated}; a new proposal makes it a candidate again"
        case _:
            streak = f"{state.treated.longest} wins in a row of {rule.wins_in_a_row}"
            look = _next(state, state.treated)
            return f"{treated}, {streak}; looked at next at {look}{' pairs' if rule.controls == 1 else ''}"


def _told(evidence: Evidence, rule: Paired) -> str:
    if rule.controls == 1:
        return f"{evidence.k} trials, {(evidence.v + evidence.u) // 2} won of {evidence.v} pairs that differ"
    met, asked = evidence.k * evidence.u**2, rule.bound * evidence.v
    sides = f"k·U² is {met:,} where {asked:,} is asked and V at least {rule.least_v}"
    return f"{evidence.k} trials, U {evidence.u}, V {evidence.v}, {sides}"
