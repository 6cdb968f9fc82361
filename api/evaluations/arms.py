"""The two arms of an evaluation: their pending runs and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.rollouts.arms import planned_templates, without_plan
from agents.rollouts.play import Job
from eventlog.events import BenchmarkFrozen, Rules, Template
from eventlog.store import Position
from gate.alpha import Alpha, alpha_of
from gate.arms import Arm, arm
from gate.benchmark import PlannedArmRun
from projections.alpha import ALPHA
from projections.engine.views import Views
from projections.rewards import REWARDS
from projections.runs import PLANLESS, RUNS, is_agent
from projections.verdicts import VerdictState

from ..house import House
from ..queries.facts import require
from ..queries.runs import ended_runs
from ..sweeps.jobs import pieces_of

Sides = tuple[Arm, Arm, BenchmarkFrozen, Rules, Alpha]
"""Inputs of a verdict: champion, challenger, benchmark, rules, alpha."""


def sides(views: Views, state: VerdictState, benchmark: BenchmarkFrozen) -> Sides:
    """Build both arms from the runs played so far. Raises ForeignRun, TwoResults, ScoreOutOfRange."""
    evaluation, rules = state.evaluation, state.opening_rules()
    runs, rewards = views.find(RUNS, f"{evaluation}__"), views.find(REWARDS, f"{evaluation}__")
    present, challenger = state.artifacts()
    return (
        arm(benchmark, evaluation, "champion", present, runs, rewards, rules),
        arm(benchmark, evaluation, "challenger", challenger, runs, rewards, rules),
        benchmark,
        rules,
        alpha_of(require(views.get(ALPHA, state.benchmark)), evaluation),
    )


def jobs_of_arms(
    house: House, benchmark: BenchmarkFrozen, state: VerdictState, places: Sequence[PlannedArmRun]
) -> list[Job]:
    """Jobs of the planned runs that have not ended, with the memory of the arm and the plan of the template.

    A run whose template has no plan in the log is skipped, and so counts as missing. Raises BlobMissing.
    """
    present, challenger = state.artifacts()
    artifacts = {"champion": present, "challenger": challenger}
    pieces = {name: pieces_of(house, artifact) for name, artifact in artifacts.items()}
    templates = arm_templates(house, benchmark, state)
    done = ended_runs(house.views(), f"{state.evaluation}__")
    return [
        Job(
            spec=place.spec,
            template=templates[place.spec.template],
            environment=benchmark.environment,
            artifact=artifacts[place.arm.arm],
            pieces=pieces[place.arm.arm],
            candidate=None,
            arm=place.arm,
            learns=False,
        )
        for place in places
        if place.spec.spec_id not in done and place.spec.template in templates
    ]


def arm_templates(house: House, benchmark: BenchmarkFrozen, state: VerdictState) -> Mapping[str, Template]:
    """Templates of an evaluation with the plans recorded at its opening, keyed by id."""
    if state.executor in PLANLESS or is_agent(state.executor):
        return {template.template_id: without_plan(template) for template in benchmark.templates}
    opened = Position(state.opened_since)
    return planned_templates(benchmark.templates, state.plans(), house.store, house.blobs, opened)
