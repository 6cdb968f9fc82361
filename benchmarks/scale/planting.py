"""Plants logs of any length: sweeps that were planned, played, graded and ended, on a site that is admitted."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from functools import partial
from math import ceil

from pydantic import SecretStr
from rich.progress import Progress

from agents.envs.admission import admit, record
from agents.envs.contract import Health
from agents.envs.probing.probes import tasks_digest
from agents.envs.provider import known_sites
from agents.learning.memory import build_memory_artifact
from api.controllers.budgets import open_course
from api.controllers.fast import Controller
from api.course import BASE, CONTROLLER, Course
from api.house import House, open_house
from api.settings import Settings
from benchmarks.log.server import Server
from benchmarks.made import RUNS_A_SWEEP, Entry, encode_entry, entries_of_run
from benchmarks.made import STEPS as ALL_STEPS
from eventlog.codec import EncodedAppend, encode_append
from eventlog.database import open_engine
from eventlog.events import (
    Artifact,
    ChampionPointed,
    EnvironmentProbed,
    ProbeResult,
    Spec,
    Step,
    SweepEnded,
    SweepPlanned,
    Template,
)
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Committed
from projections.environments import ENVIRONMENTS

SITE = "marketplace"
COURSE = Course(training_seeds=10_000_000)
STEPS = 4
EVENTS_A_RUN = STEPS + 4
PROCESSES = 2

_PREFIX = "planted"
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.scale.planting"])


class PlantedSite:
    """A site that answers nothing but which tasks it grades."""

    def health(self) -> Health:
        """The tasks that the site of this name grades."""
        return Health(site=SITE, instances=0, tasks=known_sites()[SITE].tasks)


def house_of(server: Server, project: str) -> House:
    """Open a house as a command does."""
    return open_house(Settings(database_url=SecretStr(server.app_url), project=project))


def plant(server: Server, project: str, events: int, controller_of: partial[Controller]) -> House:
    """A project whose log holds at least `events` events, folded, with an open course and a champion of its memory."""
    server.project(project)
    house = house_of(server, project)
    _admit(house)
    controller_of(house).run()  # appends the facts that come before the first step
    _fill(server.app_url, project, ceil(events / (EVENTS_A_RUN * RUNS_A_SWEEP)))
    views = house.views()
    artifact, blob = build_memory_artifact(views, BASE)
    house.blobs.put([blob])
    pointed = ChampionPointed(artifact=artifact, by="operator", reason="planted", evaluation=None)
    house.store.append([Append("champion", (pointed,), "benchmark")])
    open_course(house.store, house.views(), SITE, COURSE)
    house.views()
    _analyse(server, project)
    return house


def _admit(house: House) -> None:
    tasks = known_sites()[SITE].tasks
    probes = [{"name": name, "outcome": "passed", "detail": "planted"} for name in ("null_agent", "two_seeds")]
    report = EnvironmentProbed(
        environment=SITE,
        url=None,
        tasks=tuple(task.task_id for task in tasks),
        tasks_digest=tasks_digest(tasks),
        probes=tuple(ProbeResult.model_validate(probe) for probe in probes),
        seeds=(0,),
        rng_seed=0,
        fingerprints=(),
    )
    record(house.store, report, "benchmark")
    state = house.views().find(ENVIRONMENTS)[SITE]
    admit(house.store, state, "benchmark", "planted")


def _analyse(server: Server, project: str) -> None:
    """What autovacuum does in time: without it the first plans know nothing of the tables."""
    with server.plain(project) as connection:
        connection.execute("VACUUM ANALYZE events")
        connection.execute("VACUUM ANALYZE fold_rows")


def _fill(url: str, project: str, sweeps: int) -> None:
    with _CONTEXT.Pool(PROCESSES) as pool, Progress(transient=True) as progress:
        task = progress.add_task(f"planting {sweeps:,} sweeps", total=sweeps)
        for _ in pool.imap_unordered(partial(_append, url, project), range(sweeps)):
            progress.advance(task)


def _append(url: str, project: str, number: int) -> None:
    engine = open_engine(url, project)
    outcomes = PostgresStore(engine).append_encoded(sweep_of(number))
    engine.dispose()
    if not all(isinstance(outcome, Committed) for outcome in outcomes):
        raise ValueError(f"an append was refused: {next(o for o in outcomes if not isinstance(o, Committed))}")


def sweep_of(number: int) -> list[EncodedAppend]:
    """The appends of one sweep: its plan, its runs, its end."""
    first = number * RUNS_A_SWEEP
    entries = [each for run in range(first, first + RUNS_A_SWEEP) for each in _entries(run)]
    started = [payload for entry in entries for kind, payload in entry.events if kind == "RunStarted"]
    specs = tuple(Spec.model_validate(each["spec"]) for each in started)
    name, stream = specs[0].sweep, f"sweep/{specs[0].sweep}"
    plan = SweepPlanned(
        sweep=name,
        environment=SITE,
        templates=tuple(_template(each) for each in sorted({spec.template for spec in specs})),
        specs=specs,
        artifact=Artifact.model_validate(started[0]["artifact"], strict=False),
        rng_seed=7,
    )
    end = SweepEnded(sweep=name, environment=SITE, runs=len(specs))
    return [
        encode_append(Append(stream, (plan,), CONTROLLER, expect=0, key=f"sweep:{name}")),
        *map(encode_entry, entries),
        encode_append(Append(stream, (end,), CONTROLLER, key=f"sweep-ended:{name}:{len(specs)}")),
    ]


def _entries(run: int) -> Iterator[Entry]:
    """What is recorded of a run with STEPS steps."""
    for entry in entries_of_run(run, _PREFIX):
        kept = (each for each in entry.events if each[0] != "StepTaken" or each[1]["index"] >= ALL_STEPS - STEPS)
        yield Entry(entry.stream, entry.key, entry.expect, tuple(kept))


def _template(name: str) -> Template:
    task = name.partition(".")[2]
    look = Step(type="navigate", intent="open the boats page", url="/boats")
    return Template(
        template_id=name, cluster="navigation", oracle_task_id=task, instruction="Look for it.", plan_steps=(look,)
    )
