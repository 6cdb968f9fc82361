"""How a piece of memory stands, in words and numbers: evidence, next look, trials, and why it is what it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Literal

import msgspec
from msgspec.structs import replace

from eventlog.events import PieceTried, RewriteLost, RewriteWon
from eventlog.store import Recorded
from gate.selection import corrected_uplift
from projections.candidacy import C, Candidacy, piece_status, worth_now
from projections.engine.projection import Change
from projections.evidence import Evidence, Paired, Seeds, e_value, is_futile, next_look
from projections.pieces import PieceState
from projections.rewrites import RewriteState

from .changes import describe_change
from .history import Since

_WHOLE = 1_000_000
_SAMPLES, _SEED = 10_000, 20_260_101

Way = Literal["treated", "withheld"]


class PieceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How a piece stands at a given time: status, the evidence that decides next, worth, and what it does.

    `worth` (in millionths) falls with losses, with runs that passed without the piece, and with idle days. `next_look`
    is null if nothing is waited for. `uplift_corrected` is how much more often runs with a promoted piece pass, in
    millionths, corrected for the fact that only what is above a bound is promoted; null without paired evidence.
    """

    status: str
    trials: int
    u: int = msgspec.field(name="U")
    v: int = msgspec.field(name="V")
    controls_passed: str
    next_look: int | None
    why: str
    worth: int
    uplift_corrected: int | None
    step: str | None
    does: str | None


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trial of a piece, and what its evidence amounted to afterwards. `env_seed` is that of its instance."""

    since: int
    run: str
    tried: Way
    won: bool
    controls_passed: str
    counts: bool
    k: int | None
    u: int | None = msgspec.field(name="U")
    v: int | None = msgspec.field(name="V")
    status: str
    env_seed: int | None = None


class StatusRow(msgspec.Struct, frozen=True):
    """A line of a piece's history: status, wins and losses since a position."""

    since: int
    status: str
    wins: int
    losses: int


class Uplift(msgspec.Struct, frozen=True):
    """How much more often runs with a piece passed than without it, in millionths, with a 95 % interval.

    Trials at one seed are averaged, because they are not independent of one another: `seeds` is how many are left.
    """

    trials: int
    seeds: int
    mean: int
    low: int
    high: int


def summarize_piece(state: Candidacy, now: datetime) -> PieceSummary:
    """How a piece stands at `now`."""
    evidence = _present(state)
    step, does = _describe_piece(state)
    return PieceSummary(
        status=piece_status(state, now),
        trials=evidence.k,
        u=evidence.u,
        v=evidence.v,
        controls_passed=_describe_passes(evidence.control_successes, evidence.control_runs),
        next_look=_next(state, evidence),
        why=why(state, now),
        worth=worth_now(state, now),
        uplift_corrected=corrected_uplift(state),
        step=step,
        does=does,
    )


def _describe_piece(state: Candidacy) -> tuple[str | None, str | None]:
    """Which step the piece belongs to, and what it does as far as its state says."""
    if isinstance(state, RewriteState):
        return state.anchor.get("intent"), describe_change(state.change) if state.change else None
    if isinstance(state, PieceState):
        return state.occasion.get("intent"), state.title or None
    return None, None


def uplift(trials: Sequence[TrialRow], tried: Way = "treated") -> Uplift | None:
    """The uplift of the trials that count: the mean difference, with an interval by bootstrap over their seeds.

    A trial whose seed is not known counts as one at a seed of its own. The bootstrap draws from a fixed stream. None if
    no trial has controls. For withheld runs the sign says what doing without the piece did.
    """
    from gate.intervals import resample  # noqa: PLC0415 it brings numpy, which the application does without
    from gate.strata import stratify  # noqa: PLC0415

    of = [each for each in trials if each.tried == tried and each.counts and each.controls_passed]
    if not of:
        return None
    by_seed: dict[object, list[int]] = {}
    for place, each in enumerate(of):
        successes, runs = map(int, each.controls_passed.split(" of "))
        unit = ("trial", place) if each.env_seed is None else each.env_seed
        by_seed.setdefault(unit, []).append(_WHOLE * each.won - _WHOLE * successes // runs)
    strata = stratify(("seeds", rates) for rates in by_seed.values())
    interval = resample(strata, _SAMPLES, _SEED).interval
    return Uplift(trials=len(of), seeds=len(by_seed), mean=strata.mean(), low=interval.low, high=interval.high)


def why(state: Candidacy, now: datetime) -> str:
    """Why a piece has the status that it has at `now`, in one line."""
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
    recorded: Iterable[Recorded],
    changes: Sequence[Change[C] | Since[C]],
    withdrawn: Collection[str] = (),
    seeds: Mapping[str, int] | None = None,
) -> tuple[TrialRow, ...]:
    """The trials of a piece in order, each with what its evidence amounted to; `changes` are its whole history.

    A trial does not `count` if its fold ignored it, or if one of its runs, treated or control, is `withdrawn` now.
    `seeds` are those of runs, for trials from before they were recorded.
    """
    states = [None, *(change.state for change in changes)]
    moves = {int(change.since): pair for change, pair in zip(changes, pairwise(states), strict=True)}
    found = []
    for item in recorded:
        event = item.event
        if isinstance(event, RewriteWon | RewriteLost | PieceTried):
            before, after = moves.get(int(item.position), (None, None))
            if not {event.run, *event.control_runs}.isdisjoint(withdrawn):
                before, after = None, None
            row = _trial_row(int(item.position), event, before, after)
            found.append(replace(row, env_seed=(seeds or {}).get(event.run)) if row.env_seed is None else row)
    return tuple(found)


def _trial_row(
    since: int, event: RewriteWon | RewriteLost | PieceTried, before: Candidacy | None, after: Candidacy | None
) -> TrialRow:
    is_withheld = isinstance(event, PieceTried) and event.withheld
    evidence = None if after is None else after.withheld if is_withheld else after.treated
    return TrialRow(
        since=since,
        run=event.run,
        tried="withheld" if is_withheld else "treated",
        won=event.won if isinstance(event, PieceTried) else isinstance(event, RewriteWon),
        controls_passed=_describe_passes(event.control_successes, len(event.control_runs)),
        counts=_moved_count(before, after, is_withheld=is_withheld),
        k=None if evidence is None else evidence.k,
        u=None if evidence is None else evidence.u,
        v=None if evidence is None else evidence.v,
        status="withdrawn" if after is None else after.status,
        env_seed=event.env_seed,
    )


def status_rows(changes: Sequence[Change[C] | Since[C]]) -> tuple[StatusRow, ...]:
    """The history of a piece, oldest first; nothing is left of a piece if all of its runs were withdrawn."""
    return tuple(
        StatusRow(change.since, "withdrawn", 0, 0)
        if change.state is None
        else StatusRow(change.since, change.state.status, change.state.wins, change.state.losses)
        for change in changes
    )


def _moved_count(before: Candidacy | None, state: Candidacy | None, *, is_withheld: bool) -> bool:
    """True if a trial changed what its fold counts: evidence if the piece was withheld, otherwise wins or losses."""
    if before is None or state is None:
        return False
    if is_withheld:
        return before.withheld != state.withheld
    return (before.wins, before.losses) != (state.wins, state.losses)


def _present(state: Candidacy) -> Evidence:
    """The evidence that decides next: that of withheld runs if the piece is in use, or was."""
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
            ended = "it is unlikely to be promoted" if is_futile(rule, state.treated) else "the last look is past"
            return f"{ended}: {evidence}; a new proposal makes it a candidate again"
        case _:
            streak = f"{state.treated.longest} wins in a row of {rule.wins_in_a_row}"
            look = _next(state, state.treated)
            return f"{evidence}, {streak}; looked at next at {look}{' pairs' if rule.controls == 1 else ''}"


def _describe_evidence(evidence: Evidence, rule: Paired) -> str:
    if rule.controls == 1:
        return f"{evidence.k} trials, {(evidence.v + evidence.u) // 2} won of {evidence.v} pairs that differ"
    met, asked = evidence.k * evidence.u**2, rule.bound * evidence.v
    sides = f"k·U² is {met:,} where {asked:,} is asked and V at least {rule.least_v}"
    lane = f", or an e-value of {int(e_value(evidence, rule)):,} where {rule.e_value:,} is asked" if rule.odds else ""
    return f"{evidence.k} trials, U {evidence.u}, V {evidence.v}, {sides}{lane}"
