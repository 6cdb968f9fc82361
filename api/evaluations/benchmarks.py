"""Freeze benchmarks for a site, by the controller or by a person with `flywheel benchmark`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from agents.envs.admission import why_not
from agents.envs.errors import NotAdmitted
from agents.suites.in_log import VersionedSuite
from eventlog.disowned import read_in_force
from eventlog.events import BenchmarkFrozen, BenchmarkTemplate, SuiteSeeds, SweepPlanned, Template
from eventlog.store import Position
from gate.benchmark import refuse_unfit_benchmark, sealed_instances
from gate.candidates import graded_tasks
from gate.errors import BenchmarkExists
from gate.figures import decimal
from gate.promote import freeze_into
from gate.renewal import SeedAmounts, seed_ranges, successor
from gate.stats import MICRO
from projections.alpha import ALPHA
from projections.benchmarks import BENCHMARKS, Instance, benchmark_instances, seen_instances
from projections.contamination import contaminated_runs
from projections.datasets.plan_rows import oracle_tasks
from projections.engine.views import Views
from projections.environments import ENVIRONMENTS
from projections.frozen_datasets import CHECKPOINTS
from projections.rewards import REWARDS
from projections.runs import OUTSIDE, RUNS
from projections.sweeps import SWEEP_PLANS, PlanState
from projections.taint import left_out

from ..datasets.freeze import holding_over
from ..environments.suites import bring_in, seeds_on
from ..errors import AlphaCapped
from ..house import House
from ..queries.ledgers import total_alpha
from .repeats import mark_repeated


def without_plans(templates: Sequence[Template]) -> tuple[BenchmarkTemplate, ...]:
    """The templates without their plans, as a benchmark holds them."""
    kept = BenchmarkTemplate.model_fields.keys()
    return tuple(BenchmarkTemplate(**template.model_dump(include=set(kept))) for template in templates)


def judged_tasks(house: House, site: str, templates: Sequence[Template]) -> tuple[BenchmarkTemplate, ...]:
    """The templates of a site as a new benchmark holds them: without plans, marked where one answer always passes."""
    return mark_repeated(house, site, without_plans(templates))


def benchmark_tasks(found: Sequence[Template], max_steps: int | None = None) -> tuple[BenchmarkTemplate, ...]:
    """The templates as a benchmark holds them, with this limit of steps (None: that of each)."""
    kept = without_plans(found)
    return kept if max_steps is None else tuple(each.model_copy(update={"max_steps": max_steps}) for each in kept)


def candidates(house: House, environment: str, least: int) -> dict[str, int]:
    """The oracle tasks that have at least `least` graded runs, whatever their outcome, and the number of these runs.

    Only clean runs count that may be learned from, so no task is chosen by what the champion passes.
    """
    views = house.views()
    events = tuple(read_in_force(house.store, types=("SweepPlanned", "BenchmarkFrozen"), upto=views.upto))
    found = graded_tasks(
        (run for run in views.find(RUNS).values() if run.environment == environment),
        views.find(REWARDS).keys(),
        benchmark_instances(views.find(BENCHMARKS).values()),
        oracle_tasks(events),
        contaminated_runs(views) | left_out(views).keys(),
    )
    return {task: runs for task, runs in found.items() if runs >= least}


def instances_seen(house: House, views: Views) -> frozenset[Instance]:
    """Instances of runs that may have been learned from. Reads a row for each sweep, and no run that one planned.

    Runs from outside count if a frozen dataset holds one of them, the only way to learn from them. Otherwise any token
    could keep a benchmark from being frozen, by a run on one of its seeds.
    """
    plans = tuple(views.find(SWEEP_PLANS).values())
    theirs = views.find(RUNS, OUTSIDE)
    if theirs and not _are_learned_from(house, views, theirs.keys()):
        theirs = {}
    others = [*theirs.values(), *views.find_each(RUNS, _without_plan(house, views)).values()]
    planned: frozenset[Instance] = frozenset().union(*(plan.instances() for plan in plans))
    return planned | seen_instances((), others, _oracle_tasks(views, plans) if others else {})


def _without_plan(house: House, views: Views) -> set[str]:
    """How the names of runs begin whose sweep's plan was disowned: they may have been played before."""
    gone = sorted(house.store.disowned_positions(views.upto))
    events = (each.event for at in gone for each in house.store.read(after=Position(at - 1), upto=at))
    return {f"{event.sweep}__" for event in events if isinstance(event, SweepPlanned)}


def _oracle_tasks(views: Views, plans: Iterable[PlanState]) -> dict[str, set[str]]:
    """Maps each template to all oracle tasks that it was planned or frozen with."""
    found: dict[str, set[str]] = {}
    for plan in plans:
        for each in plan.tasks:
            found.setdefault(each.template, set()).add(each.task)
    for state in views.find(BENCHMARKS).values():
        for template in state.templates:
            found.setdefault(template["template_id"], set()).add(template["oracle_task_id"])
    return found


def _are_learned_from(house: House, views: Views, runs: Set[str]) -> bool:
    """True if a frozen dataset holds one of these runs."""
    holds = holding_over(house.store, house.views)
    return any(holds(dataset, runs) for dataset in views.find(CHECKPOINTS, "dataset/").values())


def unavailable_instances(house: House, views: Views) -> frozenset[Instance]:
    """Every instance that no new benchmark may use: it was seen, or another benchmark holds it."""
    return instances_seen(house, views) | benchmark_instances(views.find(BENCHMARKS).values())


def freeze_on(
    house: House, frozen: BenchmarkFrozen, actor: str, suite: VersionedSuite | None = None
) -> BenchmarkFrozen:
    """Append a benchmark, and the `suite` of its tasks before it where that has no version yet.

    Raises NotAdmitted, UnknownTask, Unseedable, NotFresh, BenchmarkExists, AlphaCapped, with nothing appended.
    """
    refuse_unfreezable(house, frozen)
    if suite is not None:
        bring_in(house, suite)
    freeze_into(house.store, frozen, actor)
    return frozen


def refuse_unfreezable(house: House, frozen: BenchmarkFrozen) -> None:
    """Raise NotAdmitted, UnknownTask, Unseedable, NotFresh, BenchmarkExists or AlphaCapped if it cannot be frozen."""
    views = house.views()
    taken = views.get(BENCHMARKS, frozen.benchmark)
    if taken is not None and taken.frozen_event() != frozen:
        raise BenchmarkExists(actual=frozen.benchmark)
    _refuse_over_cap(views, frozen, house.settings.alpha_cap)
    environment = views.get(ENVIRONMENTS, frozen.environment)
    if environment is None or environment.admitted_since is None:
        raise NotAdmitted(environment=frozen.environment, actual=why_not(environment))
    others = {key: state for key, state in views.find(BENCHMARKS).items() if key != frozen.benchmark}
    refuse_unfit_benchmark(frozen, environment, instances_seen(house, views), benchmark_instances(others.values()))


def _refuse_over_cap(views: Views, frozen: BenchmarkFrozen, cap: float | None) -> None:
    others = total_alpha(state for key, state in views.find(ALPHA).items() if key != frozen.benchmark)
    if cap is not None and others + frozen.alpha > round(cap * MICRO):
        total, expected = decimal(others), decimal(round(cap * MICRO))
        raise AlphaCapped(benchmark=frozen.benchmark, actual=decimal(frozen.alpha), total=total, expected=expected)


def renew(
    house: House,
    benchmark: BenchmarkFrozen,
    actor: str,
    *,
    rng_seed: int,
    amounts: SeedAmounts | None = None,
    templates: Sequence[BenchmarkTemplate] | None = None,
    seeds: SuiteSeeds | None = None,
) -> BenchmarkFrozen:
    """Freeze a benchmark's successor with fresh seeds, for the same templates or for others.

    `seeds` are the ranges of its suite (None: those of the site's suite in the log).

    Raises AlreadySucceeded, NoFreshSeeds, and as `freeze_on`.
    """
    views = house.views()
    found, used = views.find(BENCHMARKS), unavailable_instances(house, views)
    judged = mark_repeated(house, benchmark.environment, benchmark.templates if templates is None else templates)
    among = seed_ranges(seeds or seeds_on(house, benchmark.environment))
    fresh = successor(benchmark, found, used, rng_seed=rng_seed, amounts=amounts, templates=judged, among=among)
    return freeze_on(house, fresh, actor)


def size_in_words(benchmark: BenchmarkFrozen) -> str:
    """Describe the numbers of sealed and visible instances and of repeats, and name tasks whose seeds are repeats."""
    sealed, alike = sealed_instances(benchmark), [each.template_id for each in benchmark.templates if each.one_answer]
    named = f"; the right answer is the same at every seed of {', '.join(alike)}, whose seeds are repeats"
    sizes = f"{sealed} sealed instances, {len(benchmark.tasks) - sealed} visible ones, {benchmark.repeats} repeats"
    return sizes + named if alike else sizes
