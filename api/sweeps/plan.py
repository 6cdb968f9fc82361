"""Plan and play sweeps, for the controllers and for `flywheel rollout`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agents.envs.environment import Environment
from agents.executors.by_weights import refuse_unserved
from agents.executors.executor import Executor
from agents.learning.memory import EVERY_KIND, build_memory_artifact, content_reader, forget_everything
from agents.learning.trial_results import Outcomes, credits_of
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.biased import FailureBiased, Sorting, failures_by, sorted_by
from agents.rollouts.dispatching.queue import RolloutQueue, tickets
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import Generator, plan_sweep, refuse_frozen
from agents.suites.bundled import bundled_for
from agents.suites.errors import NoSuite
from agents.suites.tasks import refuse_planless, templates_of
from eventlog.events import (
    ChampionPointed,
    Forgetting,
    PieceKind,
    Spec,
    Suite,
    SweepEnded,
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
from projections.memories import candidacies
from projections.rewards import REWARDS
from projections.runs import PLANLESS, RUNS

from ..course import BASE, CONTROLLER, Course
from ..errors import NotExtended, SweepExists
from ..history.disown import refuse_forged
from ..house import House
from ..locks import learning_alone
from ..queries.champion import present_champion
from ..queries.runs import pending_specs
from ..queries.sweeps import plans_of, sweeps_on, whole_sweep
from ..reporter import Reporter
from .allocate import allot, choice_appends, credit_choices
from .candidates import TrialPool, trial_pool
from .capture import capture_from
from .executors import options_of, recorded_as, refuse_other
from .jobs import jobs_of, play_jobs

KEPT_SEEDS = frozenset({*Course().visible_seeds, *Course().sealed_seeds})
"""Seeds reserved for a site's first benchmark."""


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


def kept_to_judge(views: Views, site: str, found: Iterable[Template]) -> frozenset[Instance]:
    """Instances that no sweep may play: those of benchmarks, and the seeds reserved for a first benchmark."""
    kept = {(site, template.oracle_task_id, seed) for template in found for seed in KEPT_SEEDS}
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
) -> SweepPlanned:
    """Append a sweep that pins current memory and the executor; also add its jobs to the `queue`, if given.

    `weights` are the weights to play with (None: the champion's). `trials` are the shares of groups that try a
    candidate or withhold a promoted piece (None: no trials). With `forgetting`, the allocator chooses the substrate
    of each group with a candidate, within `budget_left` micro-dollars. Only pieces of these `kinds` are used and tried.
    `suite` is the version of the suite that the templates come from. Raises NoPlan, BadSweep, BenchmarkInstance,
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
        trying = trial_pool(views, content_reader(house.blobs), kinds, matching).among(generator.templates, site)
    name, model = recorded_as(executor)
    event = plan_sweep(
        generator,
        site,
        artifact,
        rng_seed=rng_seed,
        candidates=trying.candidates,
        promoted=trying.promoted,
        trials=_shares(trials, has_promoted=bool(trying.promoted)),
        frozen=kept_to_judge(views, site, generator.templates),
        bias=generator.bias(int(views.upto)) if isinstance(generator, FailureBiased) else None,
        learns=learns,
        executor=name,
        model=model,
        suite=suite,
    )
    event, choices = allot(views, event, trying.candidates, forgetting, budget_left) if forgetting else (event, ())
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
    frozen = kept_to_judge(views, sweep.environment, sweep.templates)
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


def play_sweep(
    house: House,
    client: Environment,
    sweep: SweepPlanned,
    course: Course,
    reporter: Reporter,
    executor: Executor = PLAN,
) -> None:
    """Play the pending runs of a sweep, credit its trials, and capture new pieces.

    Raises OtherExecutor, BlobMissing, ForgedEvents, and what refuse_unserved raises.
    """
    refuse_other(executor, sweep, f"Use {options_of(sweep)}.")
    refuse_unserved(executor, (sweep.artifact,))
    views = house.views()
    jobs = jobs_of(house, views, sweep, pending_specs(views, sweep.specs, f"{sweep.sweep}__"))
    play_jobs(house, client, f"sweep {sweep.sweep} with artifact {sweep.artifact}", jobs, course, reporter, executor)
    learn_from(house, sweep, course)


def learn_from(house: House, sweep: SweepPlanned, course: Course, *, brings_back: bool = True) -> None:
    """Credit the trials of an ended sweep, capture new pieces, and record that this is done. Idempotent.

    Raises BlobMissing, and ForgedEvents before anything that a forged event could mislead.
    """
    with learning_alone(house.engine, sweep.environment):
        refuse_forged(house.views())
        credit(house, sweep)
        if pending_specs(house.views(), sweep.specs, f"{sweep.sweep}__"):
            return
        if sweep.learns:
            capture_from(house, sweep, course.rule, course.kinds, brings_back=brings_back)
        _end(house, sweep)


def _end(house: House, sweep: SweepPlanned) -> None:
    """Append that a sweep has ended, if no run of any of its plans is pending.

    A sweep that is extended meanwhile stays open. Raises ForgedEvents.
    """
    views, stream = house.views(), f"sweep/{sweep.sweep}"
    refuse_forged(views)
    version = max((each.version for each in house.store.read(stream=stream, upto=views.upto)), default=0)
    whole = whole_sweep(plans_of(house.store, views, sweep.sweep))
    if whole is None or pending_specs(views, whole.specs, f"{sweep.sweep}__"):
        return
    runs = len(whole.specs)
    event = SweepEnded(sweep=sweep.sweep, environment=sweep.environment, runs=runs)
    key = f"sweep-ended:{sweep.sweep}:{runs}"
    house.store.append([Append(stream, (event,), CONTROLLER, expect=version, key=key)])


def make_up(house: House, sweeps: Iterable[SweepPlanned], course: Course) -> None:
    """Learn from ended sweeps whose player did not, because it was killed or was one of several workers.

    Given-up pieces are not brought back here, because an ended course may have left them so on purpose.

    Raises BlobMissing, ForgedEvents.
    """
    for sweep in sweeps:
        learn_from(house, sweep, course, brings_back=False)


def credit(house: House, sweep: SweepPlanned) -> None:
    """Credit the trials of an ended sweep, in order. An open sweep is skipped, to keep that order."""
    views, prefix = house.views(), f"{sweep.sweep}__"
    if pending_specs(views, sweep.specs, prefix):
        return
    outcomes = Outcomes(views.find(RUNS, prefix), views.find(REWARDS, prefix), contaminated_runs(views, prefix))
    house.store.append(credits_of(sweep.specs, outcomes, candidacies(views), CONTROLLER))
    credit_choices(house, sweep)
