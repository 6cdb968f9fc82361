"""Semantic difference between two positions: a pure function of two views of one log.

It compares states, not events: a run that was started, played and graded in between counts as one ended run. Only
rewrites and the champion show every change in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import itemgetter

from .access import ACCESS
from .benchmarks import BENCHMARKS
from .champions import CHAMPION, CHAMPIONS
from .contamination import contaminated_among
from .costs import COSTS, PRICES, SPENT, CostState
from .engine.paging import page_states
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

Hidden = Callable[[Iterable[RunState]], frozenset[str]]
"""Names of those of these runs whose results may not be told."""


def _hide_none(_: Iterable[RunState]) -> frozenset[str]:
    return frozenset()


def difference(
    before: Views, after: Views, *, counts_runs: bool = True, hidden_among: Hidden = _hide_none
) -> Difference:
    """Changes between the positions of two views of one log. Raises BackwardDifference.

    Runs and failures are counted by reading every run; without `counts_runs` these two sections stay empty. Results of
    hidden runs are left out.
    """
    if before.upto > after.upto:
        raise BackwardDifference(actual=before.upto, expected=after.upto)
    runs = _runs(before, after, hidden_among) if counts_runs else ()
    return Difference(
        before=int(before.upto),
        after=int(after.upto),
        champion=_champion(before, after),
        rewrites=tuple(_rewrites(before, after)),
        runs=runs,
        failures=_failures(before, after, hidden_among) if counts_runs else (),
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


@dataclass
class _Played:
    """Counts of the runs of one kind over the pages read so far."""

    started: int = 0
    ended: int = 0
    missing: int = 0
    graded: int = 0
    passed: int = 0
    regraded: int = 0
    graded_before: int = 0
    passed_before: int = 0
    is_hidden: bool = False

    def take(self, was: RunState | None, is_: RunState) -> None:
        """Count a run as it was and as it is."""
        self.started += was is None
        if is_.is_ended and not (was is not None and was.is_ended):
            self.ended += 1
            self.missing += is_.status == "missing"

    def take_grade(self, was: RewardState | None, is_: RewardState | None) -> None:
        """Count a run's grade as it was and as it is."""
        if was is not None:
            self.graded_before += 1
            self.passed_before += was.passed
            self.regraded += is_ is not None and is_ != was
        elif is_ is not None:
            self.graded += 1
            self.passed += is_.passed

    def as_runs_played(self, kind: tuple[str, str, bool]) -> RunsPlayed:
        """The counts as they are shown."""
        found = RunsPlayed(
            *kind,
            started=self.started,
            ended=self.ended,
            passed=self.passed,
            failed=self.graded - self.passed,
            missing=self.missing,
            regraded=self.regraded,
            rate=_rate(self.passed, self.graded),
            rate_before=_rate(self.passed_before, self.graded_before),
        )
        if not self.is_hidden:
            return found
        return replace(found, passed=None, failed=None, regraded=None, rate=None, rate_before=None)


def _runs(before: Views, after: Views, hidden_among: Hidden) -> tuple[RunsPlayed, ...]:
    kinds: dict[tuple[str, str, bool], _Played] = {}
    for page in page_states(after, RUNS):
        were, graded, regraded = before.pick(RUNS, page), before.pick(REWARDS, page), after.pick(REWARDS, page)
        hidden = hidden_among(page.values())
        for key, run in page.items():
            played = kinds.setdefault((run.environment, run.template, run.evaluation is not None), _Played())
            played.take(were.get(key), run)
            played.take_grade(graded.get(key), regraded.get(key))
            played.is_hidden |= key in hidden
    rows = (played.as_runs_played(kind) for kind, played in sorted(kinds.items(), key=itemgetter(0)))
    return tuple(row for row in rows if row.started or row.ended or row.passed or row.failed or row.regraded)


def _rate(passed: int, graded: int) -> int | None:
    return passed * MICRO // graded if graded else None


def _failures(before: Views, after: Views, hidden_among: Hidden) -> tuple[ClusterMoved, ...]:
    counts: dict[tuple[str, str, str, str], list[int]] = {}
    for index, views in enumerate((before, after)):
        for page in page_states(views, FAILURES):
            failed = [state for state in page.values() if state.is_failure]
            runs = views.pick(RUNS, [state.run for state in failed])
            told = runs.keys() - hidden_among(runs.values())
            failed = [state for state in failed if state.run in told]
            for found in clusters(failed, contaminated_among(views, runs.values())):
                name = (found.environment, found.template, found.failure_class, found.step_intent)
                counts.setdefault(name, [0, 0])[index] += len(found.runs)
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
