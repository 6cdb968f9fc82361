"""`flywheel rollout`: sweeps planned and played by hand, and how they stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import typer

from agents.envs.environment import Environment
from agents.envs.sandbox import PORT
from agents.executors.executor import Executor, refuse_without_logprobs
from agents.rollouts.biased import Sorting
from agents.rollouts.sweep import SeedSweep
from eventlog.events import SweepPlanned

from ..admitting import admitting, see_admission
from ..decide import Course, fresh_seeds
from ..errors import Unknown
from ..exclusive import only_controller
from ..executing import Way, executor_of
from ..house import House
from ..playing import refuse_session_not_kept
from ..progress import progress_of
from ..reading import read_position
from ..seeking import Limits, classes, seek
from ..sites import Where, placed_at
from ..sweeping import Draw, biased, first_facts, next_name, play_sweep, sweeps_of
from ..verifying import refuse_unchecked
from .output import AsJson, AsOf, TerminalReporter, emit_json, listing, opened, say
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, Url
from .sweep_begun import OPERATOR, known_as, planned_now
from .sweep_options import (
    ForGrpo,
    How,
    Learn,
    MaxCost,
    MaxParallel,
    MaxSiblings,
    ModelName,
    Name,
    PlanOnly,
    RngSeed,
    Seeds,
    Seek,
    Siblings,
    Site,
    Tasks,
    Temperatures,
    TemplatesFile,
    Timeout,
    VerifySteps,
    limits_of,
    micro,
    read_seeds,
    refuse_alike,
    refuse_idle,
    refuse_unplayed,
    spoken,
    templates_of,
)
from .sweep_shown import plain_seeking, row, show, tell

app = typer.Typer(help="Rollouts: sweep, biased, status.", no_args_is_help=True)


@app.command()
def sweep(
    site: Site = "marketplace",
    *,
    task: Tasks = None,
    seeds: Seeds = None,
    siblings: Siblings = 3,
    temperature: Temperatures = None,
    name: Name = None,
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="Play all in order, in one browser profile of this name.")
    ] = None,
    rng_seed: RngSeed = 7,
    learn: Learn = False,
    max_parallel: MaxParallel = 4,
    timeout: Timeout = None,
    executor: How = Way.PLAN,
    model: ModelName = None,
    for_grpo: ForGrpo = False,
    verify_steps: VerifySteps = False,
    plan_only: PlanOnly = False,
    variance_seek: Seek = False,
    max_siblings: MaxSiblings = None,
    max_cost: MaxCost = None,
    templates: TemplatesFile = None,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    as_json: AsJson = False,
) -> None:
    """Play each task at each seed, with siblings; one that stopped is resumed by its name."""
    refuse_idle(executor, model, temperature)
    refuse_unplayed(verify_steps=verify_steps, plan_only=plan_only)
    limits = limits_of(max_siblings, max_cost, seek=variance_seek, plan_only=plan_only)
    course = Course(
        max_parallel=max_parallel, timeout_s=timeout, siblings=siblings, rng_seed=rng_seed, verify_steps=verify_steps
    )
    with (
        opened() as house,
        placed_at(house, site, Where(url, admin_url, sandbox, port, admin_port), spoken(dialect)) as placed,
        executor_of(executor, house.settings, model=model, tabs=placed.tabs) as doing,
        only_controller(house.engine, site),
    ):
        refuse_session_not_kept(session, doing)
        if for_grpo:
            refuse_without_logprobs(doing)
        client = placed.environment
        refuse_unchecked(house.settings, client, verify_steps=verify_steps)
        first_facts(house)
        see_admission(house, client, site, admitting(house, placed, TerminalReporter()))
        before = sweeps_of(house.store, site)
        planned = known_as(before, name, doing)
        temperatures = micro(temperature or ())
        refuse_alike(executor, planned, temperatures, wants_spread=for_grpo or variance_seek)
        if not planned:
            taken = read_seeds(seeds) if seeds is not None else fresh_seeds(before, course)
            found = templates_of(house, client, templates, task)
            generator = SeedSweep(name or next_name(house.store, site), found, taken, siblings, temperatures, session)
            planned = planned_now(house, site, generator, rng_seed, doing, learn=learn, queued=plan_only)
        if plan_only:
            tell(house, planned, as_json=as_json)
            return
        _play(house, client, planned, course, limits, doing, as_json=as_json)


@app.command("biased")
def biased_(
    site: Site = "marketplace",
    *,
    instances: Annotated[int, typer.Option(min=1, max=100_000, help="How many instances to share out.")] = 12,
    by: Annotated[Sorting, typer.Option(help="Share them by cluster of tasks, or by task.")] = "cluster",
    of: Annotated[str | None, typer.Option(help="Count only failures of this sweep. Default: of all.")] = None,
    task: Tasks = None,
    seeds: Seeds = None,
    siblings: Siblings = 3,
    temperature: Temperatures = None,
    name: Name = None,
    rng_seed: RngSeed = 7,
    learn: Learn = False,
    max_parallel: MaxParallel = 4,
    timeout: Timeout = None,
    executor: How = Way.PLAN,
    model: ModelName = None,
    for_grpo: ForGrpo = False,
    verify_steps: VerifySteps = False,
    plan_only: PlanOnly = False,
    templates: TemplatesFile = None,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    as_json: AsJson = False,
) -> None:
    """Play more instances where runs failed more: a budget shared out by failures, seeds drawn without repetition."""
    refuse_idle(executor, model, temperature)
    refuse_unplayed(verify_steps=verify_steps, plan_only=plan_only)
    course = Course(
        max_parallel=max_parallel, timeout_s=timeout, siblings=siblings, rng_seed=rng_seed, verify_steps=verify_steps
    )
    with (
        opened() as house,
        placed_at(house, site, Where(url, admin_url, sandbox, port, admin_port), spoken(dialect)) as placed,
        executor_of(executor, house.settings, model=model, tabs=placed.tabs) as doing,
        only_controller(house.engine, site),
    ):
        if for_grpo:
            refuse_without_logprobs(doing)
        client = placed.environment
        refuse_unchecked(house.settings, client, verify_steps=verify_steps)
        first_facts(house)
        see_admission(house, client, site, admitting(house, placed, TerminalReporter()))
        before = sweeps_of(house.store, site)
        planned = known_as(before, name, doing)
        temperatures = micro(temperature or ())
        refuse_alike(executor, planned, temperatures, wants_spread=for_grpo)
        if not planned:
            if of is not None and of not in {event.sweep for event in before}:
                raise Unknown(what="sweep", actual=of, way_out="`flywheel rollout status` names them.")
            taken = read_seeds(seeds) if seeds is not None else fresh_seeds(before, course, instances)
            draw = Draw(taken, instances, siblings, rng_seed, temperatures)
            found = templates_of(house, client, templates, task)
            generator = biased(house.views(), site, name or next_name(house.store, site), found, by, draw, of=of)
            if not generator.allocation():
                say(f"No run on {site} has failed{f' in {of}' if of else ''}: nothing to be biased by. Sweep first.")
                return
            planned = planned_now(house, site, generator, rng_seed, doing, learn=learn, queued=plan_only)
        if plan_only:
            tell(house, planned, as_json=as_json)
            return
        _play(house, client, planned, course, None, doing, as_json=as_json)


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(metavar="[SWEEP]", help="One sweep. Default: all of them.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many, the newest.")] = 50,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Show how sweeps stand: planned, graded, missing, failed, waiting; of one, its groups and what they are worth."""
    with opened() as house:
        views = house.views(read_position(house.store, as_of))
        planned = house.store.read(upto=views.upto, types=["SweepPlanned"])
        events = [each.event for each in planned if isinstance(each.event, SweepPlanned)]
        found = progress_of(views, (event for event in events if name in {None, event.sweep}))
        groups = {} if name is None else classes(views, name)
    if name is not None and not found:
        raise Unknown(what="sweep", actual=name, way_out="`flywheel rollout status` names them.")
    if name is None:
        rows = [row(each) for each in found[-limit:]]
        columns = (
            "sweep",
            "received",
            "graded",
            "missing",
            "failed",
            "playing",
            "waiting",
            "passed",
            "cost",
            "artifact",
        )
        listing(rows, columns, as_json=as_json, empty="no sweeps yet; `flywheel rollout sweep` plays one")
    elif as_json:
        emit_json({**row(found[0]), "groups": {key: dataclasses.asdict(each) for key, each in groups.items()}})
    else:
        show(found[0], groups)


def _play(
    house: House,
    client: Environment,
    planned: Sequence[SweepPlanned],
    course: Course,
    limits: Limits | None,
    executor: Executor,
    *,
    as_json: bool,
) -> None:
    reporter, name = TerminalReporter(), planned[0].sweep
    for event in planned:
        play_sweep(house, client, event, course, reporter, executor)
    sought = (
        None if limits is None else seek(house, client, planned[0], course, limits, reporter, executor, actor=OPERATOR)
    )
    views = house.views()
    events = [event for event in sweeps_of(house.store, planned[0].environment) if event.sweep == name]
    (found,), groups = progress_of(views, events), classes(views, name)
    if as_json:
        told = {key: dataclasses.asdict(each) for key, each in groups.items()}
        emit_json({**row(found), "groups": told, "seeking": None if sought is None else plain_seeking(sought)})
        return
    show(found, groups)
    if sought is not None:
        say(f"{sought.added} siblings added; {sought.stopped}.")
