"""How a piece of memory stands, in words and numbers: evidence, next look, trials, and why it is what it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec

from eventlog.events import PieceTried, RewriteLost, RewriteWon
from eventlog.store import Recorded
from projections.candidacy import C, Candidacy, piece_status, worth_now
from projections.engine.projection import Change
from projections.evidence import Evidence, Paired, Seeds, next_look
from projections.pieces import PieceState
from projections.rewrites import RewriteState

from ..queries.changes import describe_change

_WHOLE = 1_000_000
_SAMPLES, _SEED = 10_000, 20_260_101

LISTED = ("rewrite", "status", "wins", "losses", "trials", "U", "V", "controls_passed", "next_look", "step", "does")
TRIALS = ("since", "run", "tried", "won", "controls_passed", "counts", "k", "U", "V", "status")


def report_piece(state: Candidacy, now: datetime) -> dict[str, Any]:
    """A piece's row as of an explicit `now`, with its evidence; `next_look` is None where nothing is waited for.

    `worth` (micro) ranks it now: it falls with losses, with runs that did without it and passed, and with idle days.
    """
    row: dict[str, Any] = msgspec.to_builtins(state)
    evidence = _present(state)
    return {
        **row,
        "status": piece_status(state, now),
        "trials": evidence.k,
        "U": evidence.u,
        "V": evidence.v,
        "controls_passed": _describe_passes(evidence.control_successes, evidence.control_runs),
        "next_look": _next(state, evidence),
        "why": why(state, now),
        "worth": worth_now(state, now),
        **_describe_piece(state),
    }


def _describe_piece(state: Candidacy) -> dict[str, Any]:
    """Of which step it is, and what it does as far as its row says."""
    if isinstance(state, RewriteState):
        return {"step": state.anchor.get("intent"), "does": describe_change(state.change) if state.change else None}
    if isinstance(state, PieceState):
        return {"step": state.occasion.get("intent"), "does": state.title or None}
    return {"step": None, "does": None}


def uplift(trials: Sequence[Mapping[str, Any]], tried: str = "treated") -> dict[str, Any] | None:
    """How much more often runs with a piece passed than their siblings without it, in millionths.

    From trials as `trials_of` lists them, those that count: the mean difference, with a 95 % interval by bootstrap over
    the trials, from a frozen stream. None without a trial that has controls. For withheld runs the sign says what doing
    without it did.
    """
    from gate.intervals import resample  # noqa: PLC0415 it brings numpy, which the application does without
    from gate.strata import stratify  # noqa: PLC0415

    of = [each for each in trials if each["tried"] == tried and each["counts"] and each["controls_passed"]]
    if not of:
        return None
    pairs = [(each["won"], *map(int, each["controls_passed"].split(" of "))) for each in of]
    rates = [(_WHOLE * won - _WHOLE * successes // runs,) for won, successes, runs in pairs]
    strata = stratify(("trials", rate) for rate in rates)
    interval = resample(strata, _SAMPLES, _SEED).interval
    return {"trials": len(of), "mean": strata.mean(), "low": interval.low, "high": interval.high}


def why(state: Candidacy, now: datetime) -> str:
    """Why a piece is what it is as of `now`, in one line."""
    status, days = piece_status(state, now), 0 if state.rule is None else state.rule.cold_after_days
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


def trials_of(
    recorded: Iterable[Recorded], changes: Sequence[Change[C]], withdrawn: Collection[str] = ()
) -> list[dict[str, Any]]:
    """A piece's trials in order, each with what its evidence came to; `changes` are its whole history.

    One does not `count` that its fold passed over, nor one with a run, treated or control, that is `withdrawn` now.
    """
    states = [None, *(change.state for change in changes)]
    told = {int(change.since): pair for change, pair in zip(changes, pairwise(states), strict=True)}
    found = []
    for item in recorded:
        event = item.event
        if isinstance(event, RewriteWon | RewriteLost | PieceTried):
            is_withheld = isinstance(event, PieceTried) and event.withheld
            before, state = told.get(int(item.position), (None, None))
            if not {event.run, *event.control_runs}.isdisjoint(withdrawn):
                before, state = None, None
            evidence = None if state is None else state.withheld if is_withheld else state.treated
            found.append(
                {
                    "since": int(item.position),
                    "run": event.run,
                    "tried": "withheld" if is_withheld else "treated",
                    "won": event.won if isinstance(event, PieceTried) else isinstance(event, RewriteWon),
                    "controls_passed": _describe_passes(event.control_successes, len(event.control_runs)),
                    "counts": _moved_count(before, state, is_withheld=is_withheld),
                    "k": None if evidence is None else evidence.k,
                    "U": None if evidence is None else evidence.u,
                    "V": None if evidence is None else evidence.v,
                    "status": "withdrawn" if state is None else state.status,
                }
            )
    return found


def _moved_count(before: Candidacy | None, state: Candidacy | None, *, is_withheld: bool) -> bool:
    """Whether a trial moved what its fold counts: evidence where the piece was withheld, else wins or losses."""
    if before is None or state is None:
        return False
    if is_withheld:
        return before.withheld != state.withheld
    return (before.wins, before.losses) != (state.wins, state.losses)


def _present(state: Candidacy) -> Evidence:
    """The evidence that decides next: of withheld runs where it is in use, or was."""
    return state.withheld if state.status in {"promoted", "demoted"} else state.treated


def _describe_passes(successes: int, runs: int) -> str:
    return f"{successes} of {runs}" if runs else ""


def _next(state: Candidacy, evidence: Evidence) -> int | None:
    waits = isinstance(state.rule, Paired) and (state.is_on_trial or state.status == "promoted")
    return next_look(evidence, state.rule) if waits and isinstance(state.rule, Paired) else None


def _by_streaks(state: Candidacy, rule: Seeds, status: str) -> str:
    if status == "promoted":
        return f"{rule.wins_to_promote} wins in a row; {rule.losses_to_demote} losses in a row would demote it"
    if status == "demoted":
        return f"{rule.losses_to_demote} losses in a row"
    return f"{state.consecutive_wins} wins in a row of {rule.wins_to_promote}"


def _by_pairs(state: Candidacy, rule: Paired, status: str) -> str:
    evidence, withheld = _describe_evidence(state.treated, rule), _describe_evidence(state.withheld, rule)
    match status:
        case "promoted":
            return f"treated runs did better than their siblings: {evidence}"
        case "demoted":
            return f"runs without it did better than their siblings: {withheld}"
        case "retired":
            return f"the last look is past: {evidence}; a new proposal makes it a candidate again"
        case _:
            streak = f"{state.treated.longest} wins in a row of {rule.wins_in_a_row}"
            look = _next(state, state.treated)
            return f"{evidence}, {streak}; looked at next at {look}{' pairs' if rule.controls == 1 else ''}"


def _describe_evidence(evidence: Evidence, rule: Paired) -> str:
    if rule.controls == 1:
        return f"{evidence.k} trials, {(evidence.v + evidence.u) // 2} won of {evidence.v} pairs that differ"
    met, asked = evidence.k * evidence.u**2, rule.bound * evidence.v
    sides = f"k·U² is {met:,} where {asked:,} is asked and V at least {rule.least_v}"
    return f"{evidence.k} trials, U {evidence.u}, V {evidence.v}, {sides}"
