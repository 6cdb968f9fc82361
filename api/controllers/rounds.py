"""Progress of a course, round by round: runs, failures, proposed pieces and cost. Pure over views."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from eventlog.events import SweepPlanned
from gate.figures import count_noun
from projections.candidacy import Candidacy
from projections.contamination import contaminated_runs
from projections.engine.views import Views
from projections.evidence import Seeds
from projections.failures import FAILURES, clusters
from projections.memories import candidacies
from projections.pieces import PieceState
from projections.rewards import REWARDS
from projections.rewrites import RewriteState
from projections.runs import RUNS

from ..queries.benchmarks import evaluations_of
from ..queries.changes import describe_change
from ..sweeps.recovery_costs import known_sum, recovery_costs

_MOST = 3


@dataclass(frozen=True, slots=True)
class FastRound:
    """One sweep of a course: its runs, and how many of the runs without a trial piece (`plain`) passed.

    `failing` describes the largest failure clusters. `proposed` counts the pieces found in the sweep. `cost` includes
    recovery's model calls.
    """

    number: int
    sweep: str
    artifact: str
    runs: int
    ended: int
    plain: int
    plain_passed: int
    proposed: int
    failing: tuple[str, ...]
    cost: int


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """Status of a site: number of pieces on trial and in memory, and its verdicts."""

    on_trial: int
    promoted: int
    verdicts: tuple[tuple[str, str], ...]


Watch = Callable[[tuple[FastRound, ...], SiteStatus], None]


def unseen(_rounds: tuple[FastRound, ...], _status: SiteStatus) -> None:
    """A watch that ignores every update."""


def never() -> bool:
    """A signal that is never given."""
    return False


def rounds_played(views: Views, sweeps: Iterable[SweepPlanned]) -> tuple[FastRound, ...]:
    """Each sweep as a round, in order, counted from 1."""
    pieces = candidacies(views).values()
    return tuple(_round(views, number, sweep, pieces) for number, sweep in enumerate(sweeps, start=1))


def site_status(views: Views, site: str) -> SiteStatus:
    """Current status of a site."""
    states = candidacies(views).values()
    return SiteStatus(
        on_trial=sum(state.is_on_trial for state in states),
        promoted=sum(state.status == "promoted" for state in states),
        verdicts=tuple((each.evaluation, each.decision or "running") for each in evaluations_of(views, site)),
    )


def news(views: Views, sweep: SweepPlanned, before: Mapping[str, str]) -> Iterator[str]:
    """Outcome of a sweep as text lines: failure clusters, proposed pieces, and pieces whose status changed.

    `before` has the status of each piece before the sweep.
    """
    prefix = f"{sweep.sweep}__"
    for cluster in clusters(views.find(FAILURES, prefix).values(), contaminated_runs(views, prefix)):
        where = f" at step “{cluster.step_intent}”" if cluster.step_intent else ""
        yield f"{count_noun(len(cluster.runs), 'run')} of {cluster.template} failed: {cluster.failure_class}{where}"
    for key, state in candidacies(views).items():
        if key not in before:
            yield f"proposed {key}: {_does(state)} (learned from {state.proposed_by or 'no run'})"
        elif state.status != before[key]:
            yield f"{state.status} {key}: {_record(state)}"


def _record(state: Candidacy) -> str:
    """The trial runs of a piece so far. A sweep's last trials may come after the one that decided."""
    won = f"{state.wins} of {state.wins + state.losses} trial runs won so far"
    if state.status == "promoted" and isinstance(state.rule, Seeds):
        return f"{state.rule.wins_to_promote} wins in a row; {won}"
    return won


def _does(state: Candidacy) -> str:
    if isinstance(state, RewriteState):
        return f"rewrite of a step: {describe_change(state.change)}"
    return f"{state.kind} for the step “{state.occasion['intent']}”" if isinstance(state, PieceState) else ""


def _round(views: Views, number: int, sweep: SweepPlanned, pieces: Collection[Candidacy]) -> FastRound:
    prefix = f"{sweep.sweep}__"
    rewards = views.find(REWARDS, prefix)
    plain = [spec.spec_id for spec in sweep.specs if spec.is_plain and spec.spec_id in rewards]
    asked = recovery_costs(views, (spec.spec_id for spec in sweep.specs))
    return FastRound(
        number=number,
        sweep=sweep.sweep,
        artifact=str(sweep.artifact),
        runs=len(sweep.specs),
        ended=sum(run.is_ended for run in views.find(RUNS, prefix).values()),
        plain=len(plain),
        plain_passed=sum(rewards[name].passed for name in plain),
        proposed=sum(state.proposed_by.startswith(prefix) for state in pieces),
        failing=_failing_tasks(views, prefix),
        cost=sum(reward.cost or 0 for reward in rewards.values()) + known_sum(asked),
    )


def _failing_tasks(views: Views, prefix: str) -> tuple[str, ...]:
    found = clusters(views.find(FAILURES, prefix).values(), contaminated_runs(views, prefix))
    return tuple(
        f"{len(each.runs)} × {each.template.partition('.')[2]}: {each.failure_class}" for each in found[:_MOST]
    )
