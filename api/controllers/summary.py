"""Summary of a `flywheel run`, read from the log."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Final

from eventlog.events import ArmSummary, Verdict
from gate.figures import count_noun, decimal, dollars
from projections.benchmarks import BENCHMARKS
from projections.checkpoints import WEIGHTS
from projections.costs import COSTS, SPENT, CostState
from projections.engine.paging import page_states
from projections.engine.views import PostgresViews
from projections.frozen_datasets import CHECKPOINTS
from projections.rewards import REWARDS
from projections.rewrites import REWRITES
from projections.runs import RUNS
from projections.verdicts import VERDICTS, VerdictState

from ..house import House
from ..queries.champion import present_champion
from ..queries.costs import RecoveryCost, recovery_cost
from ..queries.log_status import chain_head
from ..queries.untold import may_tell

_SEEN: Final = "visible instance"


@dataclass(frozen=True, slots=True)
class Summary:
    """The closing table of `flywheel run`. Grades are of runs outside evaluations.

    Success rates are on sealed instances, with 95 % Wilson intervals. While the benchmark can judge these are not told,
    and the mean scores on its visible instances stand in their place.
    """

    loop: str
    site: str
    ended: str
    decision: str | None
    evaluation: str | None
    before: str
    after: str
    champion: str
    runs: int
    missing: int
    graded: int
    passed: int
    spent: str
    rewrites: str
    datasets: int
    checkpoints: int
    head: int
    chain: str
    seconds: float

    def rows(self) -> list[tuple[str, str]]:
        """The table as pairs of label and text."""
        measured = f"{_SEEN}s" if _SEEN in self.before else "success rate"
        return [
            ("stopped because", self.ended),
            ("verdict", f"{self.decision} ({self.evaluation})" if self.decision else "none yet"),
            (f"{measured} before", self.before),
            (f"{measured} after", self.after),
            ("champion now", self.champion),
            ("runs", f"{self.runs} ({self.missing} missing)"),
            ("rewards", f"{self.graded} graded outside evaluations, {self.passed} passed; {self.spent}"),
            ("rewrites", self.rewrites),
            ("datasets", str(self.datasets)),
            ("checkpoints", str(self.checkpoints)),
            ("log head", str(self.head)),
            ("chain digest", self.chain),
            ("time", f"{self.seconds:.1f} s"),
        ]

    def plain(self) -> dict[str, Any]:
        """The summary as JSON."""
        return asdict(self)


def summarise(house: House, site: str, loop: str, ended: str, seconds: float) -> Summary:
    """Read the summary at the head of the log."""
    views = house.views()
    statuses, grades = _count_runs(views)
    verdict = last_verdict(views, site)
    before, after = _successes(views, verdict)
    spent, present = views.get(COSTS, SPENT), present_champion(views)
    return Summary(
        loop=loop,
        site=site,
        ended=ended,
        decision=None if verdict is None else verdict.decision,
        evaluation=None if verdict is None else verdict.evaluation,
        before=before,
        after=after,
        champion=f"{present.name}, since position {present.since}, set by {present.by}",
        runs=statuses.total(),
        missing=statuses["missing"],
        graded=grades.total(),
        passed=grades[True],
        spent=_describe_spending(spent, recovery_cost(views)),
        rewrites=_rewrites(views),
        datasets=len(views.find(CHECKPOINTS, "dataset/")),
        checkpoints=len(views.find(WEIGHTS)),
        head=int(views.upto),
        chain=chain_head(house.store, views.upto).chain,
        seconds=seconds,
    )


def _count_runs(views: PostgresViews) -> tuple[Counter[str], Counter[bool]]:
    """How many runs have each status, and how many outside evaluations passed: what sealed runs passed is not told."""
    statuses: Counter[str] = Counter()
    grades: Counter[bool] = Counter()
    for page in page_states(views, RUNS):
        statuses.update(run.status for run in page.values())
        learning = [key for key, run in page.items() if run.evaluation is None]
        grades.update(reward.passed for reward in views.pick(REWARDS, learning).values())
    return statuses, grades


def last_verdict(views: PostgresViews, site: str) -> VerdictState | None:
    """The newest evaluation of a site that has a verdict."""
    of_site = {key for key, state in views.find(BENCHMARKS).items() if state.environment == site}
    decided = [v for v in views.find(VERDICTS).values() if v.decision is not None and v.benchmark in of_site]
    return max(decided, key=lambda state: state.opened_since, default=None)


def _successes(views: PostgresViews, state: VerdictState | None) -> tuple[str, str]:
    verdict = None if state is None else state.verdict_reached()
    if state is None or verdict is None:
        return "not measured", "not measured"
    if verdict.decision == "void":
        return "not comparable", "not comparable"
    if may_tell(views, state.benchmark, state.evaluation):
        return _success(verdict.champion), _success(verdict.challenger)
    return _visible_means(verdict)


def _visible_means(verdict: Verdict) -> tuple[str, str]:
    """Mean scores of both arms on the visible instances, which decide nothing."""
    visible = verdict.visible
    if visible is None:
        return "sealed", "sealed"
    on = f"on {count_noun(visible.instances, _SEEN)} with"
    arms = (visible.champion_mean, verdict.champion.artifact), (visible.challenger_mean, verdict.challenger.artifact)
    before, after = (f"mean score {decimal(mean)} {on} {artifact}" for mean, artifact in arms)
    return before, after


def _success(arm: ArmSummary) -> str:
    rate = arm.passed * 1_000_000 // arm.runs if arm.runs else 0
    span = f"[{_short(arm.success.low)}, {_short(arm.success.high)}]"
    return f"{_short(rate)} {span}  {arm.passed} of {arm.runs} sealed runs passed with {arm.artifact}"


def _short(millionths: int) -> str:
    return f"{millionths / 1_000_000:.3f}"


def _describe_spending(spent: CostState | None, asked: RecoveryCost) -> str:
    """Total cost of runs and of recovery's model calls, as text."""
    if spent is None:
        return "nothing spent"
    unknown = spent.unknown + asked.unknown
    aside = f", {unknown} of unknown cost" if unknown else ""
    model = f", {dollars(asked.spent)} of it on recovery's model calls" if asked.calls else ""
    return f"{dollars(spent.spent + asked.spent)} spent{model}{aside}"


def _rewrites(views: PostgresViews) -> str:
    states = [state.status for state in views.find(REWRITES).values()]
    counted = ", ".join(f"{states.count(status)} {status}" for status in sorted(set(states)))
    return f"{len(states)} proposed ({counted})" if states else "none proposed"
