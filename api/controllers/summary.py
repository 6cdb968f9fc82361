"""Summary of a `flywheel run`, read from the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from eventlog.events import ArmSummary
from eventlog.store import Position
from gate.figures import dollars
from projections.benchmarks import BENCHMARKS
from projections.checkpoints import WEIGHTS
from projections.costs import COSTS, SPENT, CostState
from projections.engine.views import PostgresViews
from projections.frozen_datasets import CHECKPOINTS
from projections.rewards import REWARDS
from projections.rewrites import REWRITES
from projections.runs import RUNS
from projections.verdicts import VERDICTS, VerdictState

from ..house import House
from ..queries.champion import present_champion
from ..sweeps.recovery_costs import known_sum, recovery_costs


@dataclass(frozen=True, slots=True)
class Summary:
    """The closing table of `flywheel run`. Success rates are on sealed instances, with 95 % Wilson intervals."""

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
        return [
            ("stopped because", self.ended),
            ("verdict", f"{self.decision} ({self.evaluation})" if self.decision else "none yet"),
            ("success rate before", self.before),
            ("success rate after", self.after),
            ("champion now", self.champion),
            ("runs", f"{self.runs} ({self.missing} missing)"),
            ("rewards", f"{self.graded} graded, {self.passed} passed, {self.spent}"),
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
    runs = views.find(RUNS).values()
    rewards = views.find(REWARDS).values()
    verdict = last_verdict(views, site)
    before, after = _successes(verdict)
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
        runs=len(runs),
        missing=sum(run.status == "missing" for run in runs),
        graded=len(rewards),
        passed=sum(reward.passed for reward in rewards),
        spent=_describe_spending(spent, recovery_costs(views)),
        rewrites=_rewrites(views),
        datasets=len(views.find(CHECKPOINTS, "dataset/")),
        checkpoints=len(views.find(WEIGHTS)),
        head=int(views.upto),
        chain=head_chain(house, views.upto),
        seconds=seconds,
    )


def last_verdict(views: PostgresViews, site: str) -> VerdictState | None:
    """The newest evaluation of a site that has a verdict."""
    of_site = {key for key, state in views.find(BENCHMARKS).items() if state.environment == site}
    decided = [v for v in views.find(VERDICTS).values() if v.decision is not None and v.benchmark in of_site]
    return max(decided, key=lambda state: state.opened_since, default=None)


def head_chain(house: House, upto: Position) -> str:
    """The chain digest at a position, in hexadecimal."""
    last = next(iter(house.store.read_stored(after=Position(max(0, upto - 1)), upto=upto)), None)
    return "" if last is None else last.chain.hex()


def _successes(state: VerdictState | None) -> tuple[str, str]:
    verdict = None if state is None else state.verdict_reached()
    if verdict is None:
        return "not measured", "not measured"
    if verdict.decision == "void":
        return "not comparable", "not comparable"
    return _success(verdict.champion), _success(verdict.challenger)


def _success(arm: ArmSummary) -> str:
    rate = arm.passed * 1_000_000 // arm.runs if arm.runs else 0
    span = f"[{_short(arm.success.low)}, {_short(arm.success.high)}]"
    return f"{_short(rate)} {span}  {arm.passed} of {arm.runs} sealed runs passed with {arm.artifact}"


def _short(millionths: int) -> str:
    return f"{millionths / 1_000_000:.3f}"


def _describe_spending(spent: CostState | None, asked: Mapping[str, int | None]) -> str:
    """Total cost of runs and of recovery's model calls, as text."""
    if spent is None:
        return "nothing spent"
    unknown = spent.unknown + sum(cost is None for cost in asked.values())
    aside = f", {unknown} of unknown cost" if unknown else ""
    model = f", {dollars(known_sum(asked))} of it on recovery's model calls" if asked else ""
    return f"{dollars(spent.spent + known_sum(asked))} spent{model}{aside}"


def _rewrites(views: PostgresViews) -> str:
    states = [state.status for state in views.find(REWRITES).values()]
    counted = ", ".join(f"{states.count(status)} {status}" for status in sorted(set(states)))
    return f"{len(states)} proposed ({counted})" if states else "none proposed"
