"""Withdrawal: record runs from which nothing is learned any more, and list what was learned from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eventlog.chain import canonical, digest
from eventlog.events import RunsWithdrawn
from eventlog.store import Append, Conflict, EventStore, KeyReused, Position
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.views import Views
from projections.runs import RUNS
from projections.taint import WITHDRAWALS, Tainted, runs_of_artifact, trace_taint, withdrawals

from ..datasets.freeze import holding_over
from ..errors import AlreadyWithdrawn, NoReason
from ..house import House
from ..queries.runs import unknown_run

MOST_IN_ONE = 200
"""How many runs one event names at most; a longer list becomes several events of one append."""

_MOST_NAMED = 5


def taint_of_runs(house: House, views: Views, runs: Collection[str]) -> Tainted:
    """Learning that came from these runs, at the position of `views`."""
    return trace_taint(views, runs, holding_over(house.store, house.views))


def withdrawable(views: Views, runs: Sequence[str]) -> tuple[str, ...]:
    """These runs without repeats, in order of their bytes. Raises Unknown, AlreadyWithdrawn, UnstorableText."""
    canonical({"runs": runs})
    chosen = tuple(sorted(set(runs), key=str.encode))
    unknown = [run for run in chosen if views.get(RUNS, run) is None]
    if unknown:
        raise unknown_run(_few(unknown))
    before = withdrawals(views)
    again = [run for run in chosen if run in before]
    if again:
        raise _already(again, before[again[0]].since)
    return chosen


def withdraw_runs(store: EventStore, runs: Sequence[str], reason: str, actor: str) -> Position:
    """Record that these runs are withdrawn and return the position. The append key is derived from the runs.

    A second call changes nothing. Raises NoReason, and AlreadyWithdrawn where somebody gave another reason.
    """
    events = withdrawal(runs, reason)
    key = f"withdraw:{digest(sorted(runs)).hex()[:32]}"
    (outcome,) = store.append([Append(WITHDRAWALS, events, actor, key=key)])
    if isinstance(outcome, KeyReused):
        raise _already(runs, outcome.first)
    if isinstance(outcome, Conflict):
        raise TypeError(f"a withdrawal names no version, and the store answered {outcome!r}; expected no conflict")
    return outcome.first


def withdrawal(runs: Sequence[str], reason: str) -> tuple[RunsWithdrawn, ...]:
    """Events that withdraw these runs. Raises NoReason."""
    if not reason.strip():
        raise NoReason(what="the runs are withdrawn")
    parts = (tuple(runs[start : start + MOST_IN_ONE]) for start in range(0, len(runs), MOST_IN_ONE))
    return tuple(RunsWithdrawn(runs=part, reason=reason) for part in parts)


def runs_of_champion(views: Views) -> tuple[str, ...]:
    """The runs played with the present champion since it was pointed, without those already withdrawn."""
    state = views.get(CHAMPIONS, CHAMPION)
    if state is None:
        return ()
    before = withdrawals(views)
    return tuple(
        run for run in runs_of_artifact(views, state.pointed_artifact(), after=state.since) if run not in before
    )


def _already(runs: Sequence[str], since: int) -> AlreadyWithdrawn:
    actual = f"{len(runs)} {'is' if len(runs) == 1 else 'are'}"
    return AlreadyWithdrawn(actual=actual, runs=_few(runs), position=since)


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
