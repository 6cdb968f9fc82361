"""Measures a row by playing its memory on new instances several times; runs are recorded as usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from agents.learning.allocator import KINDS, greedy, value_of
from agents.learning.memory import build_memory_artifact, forget_everything
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.course import BASE, Course
from api.house import House
from api.queries.champion import present_champion
from api.reporter import Reporter
from api.settings import Settings
from api.sweeps.jobs import jobs_of, play_jobs
from api.sweeps.plan import first_facts, site_templates
from benchmarks.log.server import Server
from eventlog.blobs import Blob, PostgresBlobs
from eventlog.events import Artifact, Substrate, Template
from eventlog.postgres import PostgresStore
from eventlog.store import Append
from projections.costs import COSTS, SPENT
from projections.engine.projector import Projector
from projections.rewards import REWARDS
from projections.substrates import SUBSTRATES, standings

from .learning import Learner
from .rows import FIRST_SEALED, FROZEN, RowPlan, Sizes
from .silent import Silent

_ACTOR = "demo"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One evaluated run. `score` and `cost` are in micro-units; both are None for a missing run."""

    row: str
    site: str
    task: str
    cluster: str
    seed: int
    is_sealed: bool
    repetition: int
    passed: bool
    score: int
    cost: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of a row on a site: its evaluated runs in order, its learning cost, and its number of missing runs.

    `chosen` is the substrate that the allocator chooses for each cluster.
    """

    row: str
    site: str
    outcomes: tuple[Outcome, ...]
    learning_cost: int
    learning_runs: int
    missing: int
    chosen: Mapping[str, str]


def measured_alone(work: tuple[Server, str, RowPlan, Sizes]) -> Measured:
    """Call `measured` in a worker process, without progress output."""
    server, site, row, sizes = work
    return measured(server, site, row, sizes, Silent())


def measured(server: Server, site: str, row: RowPlan, sizes: Sizes, reporter: Reporter) -> Measured:
    """Let one row learn on a site, in a separate project, and play it on held-out instances."""
    project = f"{site}_{row.project}"
    server.project(project)
    engine = server.engine(project)
    try:
        store = PostgresStore(engine)
        house = House(Settings(), engine, store, PostgresBlobs(engine), Projector(engine, store=store))
        first_facts(house)
        with local_site(site) as placed, EnvClient(placed.admin_url, placed.admin_token) as client:
            if row.kinds:
                Learner(house, client, site, row, sizes, reporter).learn()
            spent = house.views().get(COSTS, SPENT)
            chosen = _chosen(house, site, row, site_templates(client))
            outcomes, missing = _evaluated(house, client, site, row, sizes, chosen, reporter)
        cost, runs = (0, 0) if spent is None else (spent.spent, spent.runs)
        shown = {cluster: name or FROZEN for cluster, name in chosen.items()}
        return Measured(row.name, site, outcomes, cost, runs, missing, shown if row.is_allocated else {})
    finally:
        engine.dispose()


def _chosen(house: House, site: str, row: RowPlan, found: tuple[Template, ...]) -> dict[str, Substrate | None]:
    """Substrate that the allocator chooses for each cluster: the most valuable one, if any has value."""
    states = house.views().find(SUBSTRATES)
    clusters = sorted({template.cluster for template in found}) if row.is_allocated else []
    known = {cluster: standings(states, site, cluster) for cluster in clusters}
    return {cluster: greedy(value_of(name, each) for name, each in known[cluster].items()) for cluster in clusters}


def _artifact(
    house: House, row: RowPlan, template: Template, chosen: Mapping[str, Substrate | None]
) -> tuple[Artifact, Blob]:
    views = house.views()
    substrate = chosen.get(template.cluster)
    kinds = row.kinds if not row.is_allocated else frozenset(() if substrate is None else {KINDS[substrate]})
    return (
        build_memory_artifact(views, present_champion(views).pointed_artifact().weights, kinds=kinds)
        if kinds
        else forget_everything(BASE)
    )


def _evaluated(
    house: House,
    client: EnvClient,
    site: str,
    row: RowPlan,
    sizes: Sizes,
    chosen: Mapping[str, Substrate | None],
    reporter: Reporter,
) -> tuple[tuple[Outcome, ...], int]:
    by_artifact: dict[str, tuple[Artifact, Blob, list[Template]]] = {}
    for template in site_templates(client):
        artifact, blob = _artifact(house, row, template, chosen)
        by_artifact.setdefault(blob.digest, (artifact, blob, []))[2].append(template)
    outcomes: list[Outcome] = []
    missing = 0
    for repetition in range(sizes.repetitions):
        seeds = (*sizes.visible_seeds(repetition), *sizes.sealed_seeds(repetition))
        for number, (artifact, blob, tasks) in enumerate(by_artifact.values()):
            name = f"{site}-evaluated{repetition}-{number}"
            generator = SeedSweep(name, tasks, seeds)
            found = _played(house, client, site, generator, (artifact, blob), reporter)
            missing += len(tasks) * len(seeds) - len(found)
            outcomes += [replace(each, row=row.name, repetition=repetition) for each in found]
    return tuple(outcomes), missing


def _played(
    house: House, client: EnvClient, site: str, generator: SeedSweep, memory: tuple[Artifact, Blob], reporter: Reporter
) -> list[Outcome]:
    """Play a sweep without learning and return the outcome of each run."""
    artifact, blob = memory
    sweep = plan_sweep(generator, site, artifact, rng_seed=0, learns=False)
    house.blobs.put([blob])
    house.store.append([Append(f"sweep/{sweep.sweep}", (sweep,), _ACTOR, expect=0, key=f"sweep:{sweep.sweep}")])
    jobs = jobs_of(house, house.views(), sweep, sweep.specs)
    play_jobs(house, client, sweep.sweep, jobs, Course(max_parallel=4), reporter)
    rewards = house.views().find(REWARDS, f"{sweep.sweep}__")
    clusters = {template.template_id: template.cluster for template in sweep.templates}
    return [
        Outcome(
            row="",
            site=site,
            task=spec.template,
            cluster=clusters[spec.template],
            seed=spec.env_seed,
            is_sealed=spec.env_seed >= FIRST_SEALED,
            repetition=0,
            passed=rewards[spec.spec_id].passed,
            score=rewards[spec.spec_id].score,
            cost=cost,
        )
        for spec in sweep.specs
        if spec.spec_id in rewards and (cost := rewards[spec.spec_id].cost) is not None
    ]
