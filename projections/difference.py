"""Semantic difference between two positions: a pure function of two views of one log.

It compares states, not events: a run that was started, played and graded in between counts as one ended run. Only
rewrites and the champion show every change in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .access import ACCESS
from .benchmarks import BENCHMARKS
from .champions import CHAMPION, CHAMPIONS
from .contamination import contaminated_runs
from .costs import COSTS, PRICES, SPENT, CostState
from .engine.projection import Change
from .engine.views import Views
from .errors import BackwardDifference
from .failures import FAILURES, clusters
from .frozen_datasets import CHECKPOINTS
from .moves import (
    ChampionChange,
    ClusterMoved,
    CostsMoved,
    DatasetAdded,
    Difference,
    Pointing,
    PricesMoved,
    RewriteMoved,
    RunsPlayed,
    StatusChange,
    TokenMoved,
    VerdictMoved,
)
from .rewards import REWARDS, RewardState
from .rewrites import REWRITES, RewriteState
from .runs import RUNS, RunState
from .verdicts import VERDICTS

MICRO = 1_000_000


def difference(before: Views, after: Views) -> Difference:
    """Changes between the positions of two views of one log. Raises BackwardDifference."""
    if before.upto > after.upto:
        raise BackwardDifference(actual=before.upto, expected=after.upto)
    return Difference(
        before=int(before.upto),
        after=int(after.upto),
        champion=_champion(before, after),
        rewrites=tuple(_rewrites(before, after)),
        runs=_runs(before, after),
        failures=_failures(before, after),
        benchmarks=tuple(sorted(after.find(BENCHMARKS).keys() - before.find(BENCHMARKS).keys(), key=str.encode)),
        datasets=_datasets(before, after),
        verdicts=tuple(_verdicts(before, after)),
        prices=_prices(before, after),
        costs=_costs(before, after),
        tokens=tuple(_tokens(before, after)),
    )


WITHDRAWN = "withdrawn"
"""The status shown for a rewrite that no longer exists because its runs were withdrawn."""


def status_changes(changes: Iterable[Change[RewriteState]], *, after: int = 0) -> tuple[StatusChange, ...]:
    """Status changes of a rewrite at positions beyond `after`. `changes` are its complete history, in order."""
    status: str | None = None
    found: list[StatusChange] = []
    for change in changes:
        state = RewriteState(status=WITHDRAWN) if change.state is None else change.state
        if state.status != status and change.since > after:
            found.append(StatusChange(int(change.since), state.status, state.wins, state.losses))
        status = state.status
    return tuple(found)


def _champion(before: Views, after: Views) -> ChampionChange | None:
    moves = tuple(
        Pointing(int(c.since), c.state.name, c.state.by, c.state.actor, c.state.reason, c.state.evaluation)
        for c in after.history(CHAMPIONS, CHAMPION)
        if c.state is not None and c.since > before.upto
    )
    was, is_ = before.get(CHAMPIONS, CHAMPION), after.get(CHAMPIONS, CHAMPION)
    return ChampionChange(was.name if was else None, is_.name if is_ else None, moves) if moves else None


def _rewrites(before: Views, after: Views) -> Iterable[RewriteMoved]:
    known = before.find(REWRITES)
    for key, state in after.find(REWRITES).items():
        was = known.get(key)
        if was == state:
            continue
        turns = status_changes(after.history(REWRITES, key), after=int(before.upto))
        if turns:
            yield RewriteMoved(
                rewrite=key,
                intent=state.anchor.get("intent", ""),
                change=state.change,
                before=was.status if was else None,
                after=state.status,
                turns=turns,
                wins=state.wins - (was.wins if was else 0),
                losses=state.losses - (was.losses if was else 0),
            )


def _runs(before: Views, after: Views) -> tuple[RunsPlayed, ...]:
    runs_before, runs_after = before.find(RUNS), after.find(RUNS)
    graded_before, graded_after = before.find(REWARDS), after.find(REWARDS)
    kinds: dict[tuple[str, str, bool], list[str]] = {}
    for key, run in runs_after.items():
        kinds.setdefault((run.environment, run.template, run.evaluation is not None), []).append(key)
    played = (
        _runs_played(kind, keys, runs_before, runs_after, graded_before, graded_after)
        for kind, keys in sorted(kinds.items())
    )
    return tuple(row for row in played if row.started or row.ended or row.passed or row.failed or row.regraded)


def _runs_played(
    kind: tuple[str, str, bool],
    keys: list[str],
    runs_before: Mapping[str, RunState],
    runs_after: Mapping[str, RunState],
    graded_before: Mapping[str, RewardState],
    graded_after: Mapping[str, RewardState],
) -> RunsPlayed:
    ended = [k for k in keys if runs_after[k].is_ended and not (k in runs_before and runs_before[k].is_ended)]
    graded = [graded_after[k] for k in keys if k in graded_after and k not in graded_before]
    earlier = [graded_before[k] for k in keys if k in graded_before]
    passed = sum(reward.passed for reward in graded)
    return RunsPlayed(
        *kind,
        started=sum(key not in runs_before for key in keys),
        ended=len(ended),
        passed=passed,
        failed=len(graded) - passed,
        missing=sum(runs_after[key].status == "missing" for key in ended),
        regraded=sum(k in graded_after and graded_after[k] != graded_before[k] for k in keys if k in graded_before),
        rate=_rate(graded),
        rate_before=_rate(earlier),
    )


def _rate(graded: list[RewardState]) -> int | None:
    return sum(reward.passed for reward in graded) * MICRO // len(graded) if graded else None


def _failures(before: Views, after: Views) -> tuple[ClusterMoved, ...]:
    counts: dict[tuple[str, str, str, str], list[int]] = {}
    for index, views in enumerate((before, after)):
        for found in clusters(views.find(FAILURES).values(), contaminated_runs(views)):
            name = (found.environment, found.template, found.failure_class, found.step_intent)
            counts.setdefault(name, [0, 0])[index] = len(found.runs)
    return tuple(ClusterMoved(*name, was, is_) for name, (was, is_) in sorted(counts.items()) if was != is_)


def _datasets(before: Views, after: Views) -> tuple[DatasetAdded, ...]:
    found = [state for state in after.find(CHECKPOINTS, "dataset/").values() if state.frozen_since > before.upto]
    return tuple(
        DatasetAdded(state.dataset, state.frozen_since, str(state.query.get("kind")), state.rows, state.groups)
        for state in sorted(found, key=lambda state: state.frozen_since)
    )


def _verdicts(before: Views, after: Views) -> Iterable[VerdictMoved]:
    known = before.find(VERDICTS)
    for key, state in after.find(VERDICTS).items():
        if known.get(key) == state:
            continue
        champion, challenger = state.artifacts()
        verdict = state.verdict_reached()
        yield VerdictMoved(
            evaluation=key,
            benchmark=state.benchmark,
            champion=str(champion),
            challenger=str(challenger),
            decision=state.decision,
            mean_delta=None if verdict is None else verdict.mean_delta,
            pairs=None if verdict is None else verdict.pairs,
        )


def _prices(before: Views, after: Views) -> PricesMoved | None:
    was, is_ = (views.get(COSTS, PRICES) or CostState() for views in (before, after))
    return PricesMoved(was.book, is_.book) if was.book != is_.book else None


def _costs(before: Views, after: Views) -> CostsMoved | None:
    was, is_ = (views.get(COSTS, SPENT) or CostState() for views in (before, after))
    moved = CostsMoved(is_.spent - was.spent, is_.runs - was.runs, is_.unknown - was.unknown)
    return moved if is_ != was else None


def _tokens(before: Views, after: Views) -> Iterable[TokenMoved]:
    known = before.find(ACCESS)
    for key, state in after.find(ACCESS).items():
        if known.get(key) != state:
            yield TokenMoved(key, state.role, "revoked" if state.is_revoked else "issued")
