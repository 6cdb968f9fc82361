"""Plan sweeps, for the controllers and for `flywheel rollout`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agents.envs.environment import Environment
from agents.executors.by_weights import refuse_unserved
from agents.executors.executor import Executor
from agents.learning.memory import EVERY_KIND, build_memory_artifact, content_reader, forget_everything
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.biased import FailureBiased, Sorting, failures_by, sorted_by
from agents.rollouts.dispatching.queue import RolloutQueue, tickets
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import Generator, plan_sweep, refuse_frozen
from agents.rollouts.trials import drop_idle, share_controls
from agents.suites.bundled import bundled_for
from agents.suites.errors import NoSuite
from agents.suites.tasks import refuse_planless, templates_of
from eventlog.events import (
    ChampionPointed,
    Forgetting,
    PieceKind,
    Spec,
    SubstrateChosen,
    Suite,
    SuiteSeeds,
    SweepPlanned,
    Template,
    Trials,
)
from eventlog.store import Append, Committed, EventStore, Rejected, Repeated
from projections.benchmarks import BENCHMARKS, Instance, benchmark_instances
from projections.contamination import contaminated_runs
from projections.costs import COSTS, PRICES
from projections.engine.views import PostgresViews, Views
from projections.failures import FAILURES
from projections.runs import PLANLESS

from ..course import BASE, CONTROLLER, Course
from ..environments.suites import course_among, seeds_on
from ..errors import NotExtended, SweepExists
from ..house import House
from ..queries.champion import present_champion
from ..queries.sweeps import sweeps_on
from .allocate import allot, choice_appends
from .candidates import TrialPool, trial_pool
from .executors import audience_of, recorded_as


def first_facts(house: House) -> None:
    """Append the facts needed before any run: prices and a first champion. Idempotent."""
    artifact, blob = forget_everything(BASE)
    house.blobs.put([blob])
    first = ChampionPointed(artifact=artifact, by="genesis", reason="the bare plans", evaluation=None)
    set_first_prices(house, CONTROLLER)
    house.store.append([Append("champion", (first,), CONTROLLER, expect=0, key="champion:genesis")])


def set_first_prices(house: House, actor: str) -> None:
    """Append the default prices where none are in force, because grading needs prices. Idempotent.

    Other events may stand in their stream: a log that was forged has some.
    """
    views = house.views()
    if views.get(COSTS, PRICES) is None:
        before = list(house.store.read(stream="prices", upto=views.upto))
        expected = before[-1].version if before else 0
        house.store.append([Append("prices", (DEFAULT_PRICES,), actor, expect=expected, key="prices:1")])


def site_templates(client: Environment, suite: Suite | None = None) -> tuple[Template, ...]:
    """Templates of a suite's tasks on a site (None: the bundled suite for it), by id.

    Raises NoSuite, NotGradedHere, OtherEnvironment.
    """
    health = client.health()
    found = suite or bundled_for(health.site)
    if found is None:
        raise NoSuite(actual=f"for the environment {health.site!r}", expected="one that was brought in for it")
    return templates_of(found, health.site, health.tasks)


def next_sweep_name(store: EventStore, views: Views, site: str) -> str:
    """Name of a site's next sweep: the site and a number that no sweep of any site uses."""
    number = sweeps_on(views, site).planned + 1
    while is_planned(store, f"{site}-{number}"):
        number += 1
    return f"{site}-{number}"


def is_planned(store: EventStore, sweep: str) -> bool:
    """True if there is a sweep of this name."""
    return next(store.read(stream=f"sweep/{sweep}"), None) is not None


@dataclass(frozen=True, slots=True)
class Draw:
    """Size and seeds of a biased sweep.

    `missing` counts runs that ended without a grade, by the same key as failures; they draw instances as those do.
    `floor` is the number of instances that each key gets in any case.
    """

    seeds: Sequence[int]
    instances: int
    siblings: int
    rng_seed: int
    temperatures: Sequence[int] = ()
    missing: Mapping[str, int] = field(default_factory=dict)
    floor: int = 0


def biased_generator(
    views: Views, site: str, name: str, found: Sequence[Template], sorting: Sorting, draw: Draw, of: str | None = None
) -> FailureBiased:
    """Generator that draws more instances where runs of the site (or only of the sweep `of`) failed."""
    prefix = "" if of is None else f"{of}__"
    counts = Counter(
        failures_by(views.find(FAILURES, prefix).values(), sorting, site, contaminated_runs(views, prefix))
    )
    counts.update(draw.missing)
    return FailureBiased(
        sweep=name,
        templates_by_cluster=sorted_by(found, sorting),
        cluster_failure_counts=dict(counts),
        seeds=draw.seeds,
        total_instances=draw.instances,
        siblings_per_instance=draw.siblings,
        rng_seed=draw.rng_seed,
        temperatures=draw.temperatures,
        by=sorting,
        of=of,
        floor=draw.floor,
    )


def kept_to_judge(views: Views, site: str, found: Iterable[Template], seeds: SuiteSeeds) -> frozenset[Instance]:
    """Instances that no sweep may play: those of benchmarks, and the seeds reserved for a first benchmark.

    `seeds` are the ranges of the suite that the templates come from.
    """
    within = course_among(Course(), seeds)
    reserved = {*within.visible_seeds, *within.sealed_seeds}
    kept = {(site, template.oracle_task_id, seed) for template in found for seed in reserved}
    return benchmark_instances(views.find(BENCHMARKS).values()) | kept


def plan(
    house: House,
    views: PostgresViews,
    site: str,
    generator: Generator,
    *,
    rng_seed: int,
    trials: Trials | None = None,
    learns: bool = True,
    queue: RolloutQueue | None = None,
    executor: Executor = PLAN,
    actor: str = CONTROLLER,
    weights: str | None = None,
    forgetting: Forgetting | None = None,
    budget_left: int | None = None,
    kinds: Collection[PieceKind] = EVERY_KIND,
    suite: str | None = None,
    tells: bool = False,
    least: int | None = None,
) -> SweepPlanned:
    """Append a sweep that pins current memory and the executor; also add its jobs to the `queue`, if given.

    `weights` are the weights to play with (None: the champion's). `trials` are the shares of groups that try a
    candidate or withhold a promoted piece (None: no trials). With `forgetting`, the allocator chooses the substrate
    of each group with a candidate, within `budget_left` micro-dollars. Only pieces of these `kinds` are used and tried.
    `suite` is the version of the suite that the templates come from. A sweep of demonstrations that `tells` says in
    their prompts what memory changed. Of a group, siblings that its trials do without are left out where it has more
    than `least` (None: none is). Raises NoPlan, BadSweep, BenchmarkInstance,
    SweepExists, and what refuse_unserved and House.embeddings raise.
    """
    if executor.name not in PLANLESS:
        refuse_planless(generator.templates)
    weights = weights or present_champion(views).pointed_artifact().weights
    matching = house.embeddings
    artifact, blob = build_memory_artifact(views, weights, now=datetime.now(UTC), kinds=kinds, embeddings=matching)
    refuse_unserved(executor, (artifact,))
    trying = TrialPool()
    if trials is not None:
        pool = trial_pool(views, content_reader(house.blobs), kinds, matching)
        trying = pool.among(generator.templates, site, audience_of(executor))
    name, model = recorded_as(executor)
    event = plan_sweep(
        generator,
        site,
        artifact,
        rng_seed=rng_seed,
        candidates=trying.candidates,
        promoted=trying.promoted,
        trials=_shares(trials, has_promoted=bool(trying.promoted)),
        frozen=kept_to_judge(views, site, generator.templates, seeds_on(house, site, suite)),
        bias=generator.bias(int(views.upto)) if isinstance(generator, FailureBiased) else None,
        learns=learns,
        executor=name,
        model=model,
        suite=suite,
        audience=audience_of(executor),
        tells=tells,
    )
    choices: tuple[SubstrateChosen, ...] = ()
    told = audience_of(executor)
    if forgetting:
        event, choices = allot(views, event, trying.candidates, forgetting, budget_left, told)
    if told is not None:
        event = share_controls(event, trying.candidates, told)
    if least is not None:
        event = drop_idle(event, (*trying.candidates, *trying.promoted), least)
    house.blobs.put([blob])
    _append(house, event, choice_appends(choices, actor), queue, actor)
    return event


def _append(
    house: House, event: SweepPlanned, choices: Sequence[Append], queue: RolloutQueue | None, actor: str
) -> None:
    """Append sweep and choices together, so that neither is in the log without the other.

    A queue adds the jobs in the same transaction, which is of the session that holds the house's lock. Raises
    SweepExists, LockLost, LogUnavailable.
    """
    request = Append(f"sweep/{event.sweep}", (event,), actor, expect=0, key=f"sweep:{event.sweep}")
    if queue is None:
        result = house.store.append_together([request, *choices])
    else:
        result = queue.plan(request, tickets(event), choices, house.store.session)
    if isinstance(result, Rejected) or not isinstance(result[0], Committed):
        raise SweepExists(actual=event.sweep)


def _shares(trials: Trials | None, *, has_promoted: bool) -> Trials | None:
    """The shares; without promoted pieces, the share for withholding goes to candidates."""
    if trials is None or has_promoted:
        return trials
    return Trials(treated_micro=trials.treated_micro + trials.withheld_micro, withheld_micro=0)


def extend(house: House, views: Views, sweep: SweepPlanned, specs: Sequence[Spec], actor: str) -> SweepPlanned:
    """Append more siblings to a sweep's groups. Raises BenchmarkInstance, NotExtended."""
    seeds = seeds_on(house, sweep.environment, sweep.suite)
    frozen = kept_to_judge(views, sweep.environment, sweep.templates, seeds)
    refuse_frozen(sweep.sweep, sweep.environment, sweep.templates, specs, frozen)
    drawn = {spec.template for spec in specs}
    event = sweep.model_copy(
        update={
            "templates": tuple(template for template in sweep.templates if template.template_id in drawn),
            "specs": tuple(specs),
        }
    )
    request = Append(f"sweep/{sweep.sweep}", (event,), actor, key=f"sweep:{specs[0].spec_id}")
    if not isinstance(house.store.append([request])[0], Committed | Repeated):
        raise NotExtended(sweep=sweep.sweep, actual=specs[0].spec_id)
    return event
