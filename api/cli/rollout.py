"""`flywheel rollout`: plan and play sweeps, and show their progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from agents.envs.sandbox import PORT
from agents.envs.sites.first import FIRST
from agents.rollouts.biased import Sorting
from agents.rollouts.sweep import SeedSweep
from eventlog.events import SweepPlanned

from ..controllers.variance_seek import Limits, Sought, seek
from ..course import Course
from ..environments.connect import Where
from ..sweeps.answers import SweepAnswer, SweepList, list_progress, refuse_unplanned, show_progress
from ..sweeps.executors import Way
from ..sweeps.missing import describe_missing
from ..sweeps.plan import Draw, biased_generator
from ..sweeps.play import play_sweep
from . import sweep_options as options
from .agent_options import AdviceOf, AgentOf, SightName, SightOf, Telling, player_of, sight_of
from .output import (
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    TerminalReporter,
    emit_json,
    say,
    say_more,
)
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, SuiteOf, Url
from .sources import Server, open_source, quote_name
from .sweep_report import plain_progress, print_sweeps, show, tell
from .sweep_setup import OPERATOR, SweepSetup, call_first, plan_now, set_up_sweep, tasks_to_play

app = typer.Typer(help="Rollouts: sweep, biased, status.", no_args_is_help=True)


@app.command()
def sweep(
    site: options.Site = FIRST,
    *,
    task: options.Tasks = None,
    seeds: options.Seeds = None,
    siblings: options.Siblings = 3,
    temperature: options.Temperatures = None,
    name: options.Name = None,
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="Play all runs in order, in one browser profile of this name.")
    ] = None,
    rng_seed: options.RngSeed = 7,
    learn: options.Learn = False,
    max_parallel: options.MaxParallel = 4,
    timeout: options.Timeout = None,
    executor: options.How = Way.PLAN,
    agent: AgentOf = None,
    advice: AdviceOf = Telling.TASK,
    sight: SightOf = SightName.TEXT,
    model: options.ModelName = None,
    for_grpo: options.ForGrpo = False,
    told: options.ToldMemory = False,
    verify_steps: options.VerifySteps = False,
    plan_only: options.PlanOnly = False,
    variance_seek: options.Seek = False,
    max_siblings: options.MaxSiblings = None,
    max_cost: options.MaxCost = None,
    templates: options.TemplatesFile = None,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    as_json: AsJson = False,
) -> None:
    """Play each task at each seed, with siblings. Give the name of an interrupted sweep to resume it.

    The exit code is 1 if no run could be graded.
    """
    executor, playing_agent = player_of(agent, executor, timeout, model, advice)
    options.refuse_idle(executor, model, temperature)
    options.refuse_shown(executor, learn=learn)
    options.refuse_untold(executor, told=told)
    options.refuse_unplayed(verify_steps=verify_steps, plan_only=plan_only)
    limits = options.variance_limits(max_siblings, max_cost, seek=variance_seek, plan_only=plan_only)
    course = Course(
        max_parallel=max_parallel, timeout_s=timeout, siblings=siblings, rng_seed=rng_seed, verify_steps=verify_steps
    )
    temperatures = options.micro(temperature or ())
    where = Where(url, admin_url, sandbox, port, admin_port)
    with set_up_sweep(
        site,
        where,
        dialect,
        executor,
        model,
        name=name,
        session=session,
        wants_logprobs=for_grpo,
        verify_steps=verify_steps,
        agent=playing_agent,
        sight=sight_of(sight, executor),
    ) as ready:
        planned = ready.planned
        options.refuse_alike(executor, planned, temperatures, wants_spread=for_grpo or variance_seek)
        playing = ready if plan_only else call_first(ready, needs_logprobs=for_grpo)
        if not planned:
            taken = options.seeds_of(seeds, ready.before(), ready.reserved_seeds(), course)
            chosen = tasks_to_play(ready, templates, suite, task)
            own = name or ready.next_name()
            generator = SeedSweep(own, chosen.templates, taken, siblings, temperatures, session)
            planned = plan_now(
                playing, generator, rng_seed, learn=learn, queued=plan_only, suite=chosen.suite, tells=told
            )
        _finish(playing, planned, course, limits, plan_only=plan_only, as_json=as_json)


@app.command("biased")
def biased_(
    site: options.Site = FIRST,
    *,
    instances: Annotated[int, typer.Option(min=1, max=100_000, help="Number of instances to distribute.")] = 12,
    by: Annotated[Sorting, typer.Option(help="Distribute by cluster of tasks, or by task.")] = "cluster",
    of: Annotated[str | None, typer.Option(help="Count only failures of this sweep. Default: all sweeps.")] = None,
    task: options.Tasks = None,
    seeds: options.Seeds = None,
    siblings: options.Siblings = 3,
    temperature: options.Temperatures = None,
    name: options.Name = None,
    rng_seed: options.RngSeed = 7,
    learn: options.Learn = False,
    max_parallel: options.MaxParallel = 4,
    timeout: options.Timeout = None,
    executor: options.How = Way.PLAN,
    agent: AgentOf = None,
    advice: AdviceOf = Telling.TASK,
    sight: SightOf = SightName.TEXT,
    model: options.ModelName = None,
    for_grpo: options.ForGrpo = False,
    verify_steps: options.VerifySteps = False,
    plan_only: options.PlanOnly = False,
    templates: options.TemplatesFile = None,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    as_json: AsJson = False,
) -> None:
    """Play more instances of tasks that fail more often, at seeds drawn without repetition."""
    executor, playing_agent = player_of(agent, executor, timeout, model, advice)
    options.refuse_idle(executor, model, temperature)
    options.refuse_shown(executor, learn=learn)
    options.refuse_unplayed(verify_steps=verify_steps, plan_only=plan_only)
    course = Course(
        max_parallel=max_parallel, timeout_s=timeout, siblings=siblings, rng_seed=rng_seed, verify_steps=verify_steps
    )
    temperatures = options.micro(temperature or ())
    where = Where(url, admin_url, sandbox, port, admin_port)
    with set_up_sweep(
        site,
        where,
        dialect,
        executor,
        model,
        name=name,
        wants_logprobs=for_grpo,
        verify_steps=verify_steps,
        agent=playing_agent,
        sight=sight_of(sight, executor),
    ) as ready:
        planned = ready.planned
        options.refuse_alike(executor, planned, temperatures, wants_spread=for_grpo)
        playing = ready if plan_only else call_first(ready, needs_logprobs=for_grpo)
        if not planned:
            if of is not None:
                refuse_unplanned(ready.house.store, ready.house.views(), of)
            drawn = options.seeds_of(seeds, ready.before(), ready.reserved_seeds(), course, instances)
            draw = Draw(drawn, instances, siblings, rng_seed, temperatures)
            chosen = tasks_to_play(ready, templates, suite, task)
            own, found = name or ready.next_name(), chosen.templates
            generator = biased_generator(ready.house.views(), site, own, found, by, draw, of=of)
            if not generator.allocation():
                say(f"No run on {site} has failed{f' in {of}' if of else ''}. Run `flywheel rollout sweep` first.")
                return
            planned = plan_now(playing, generator, rng_seed, learn=learn, queued=plan_only, suite=chosen.suite)
        _finish(playing, planned, course, None, plan_only=plan_only, as_json=as_json)


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(metavar="[SWEEP]", help="One sweep. Default: all of them.")] = None,
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of sweeps, newest first; for one sweep, also its groups and whether GRPO can use them."""
    with open_source(server, as_of) as source:
        if name is None:
            page, following = source.pages(
                SweepList,
                "sweeps",
                "/v1/sweeps",
                lambda house, views: list_progress(house.store, views, after=after, limit=limit),
                after,
                limit,
            )
            print_sweeps(page, after, as_json=as_json)
            say_more(following)
            return
        path = f"/v1/sweeps/{quote_name(name)}"
        found = source.read(SweepAnswer, path, lambda house, views: show_progress(house.store, views, name))
    if as_json:
        emit_json(plain_progress(found))
    else:
        show(found.sweep, found.groups)
        for line in describe_missing(found.missing):
            say(line)


def _finish(
    ready: SweepSetup,
    planned: Sequence[SweepPlanned],
    course: Course,
    limits: Limits | None,
    *,
    plan_only: bool,
    as_json: bool,
) -> None:
    """Play the planned sweep and seek variance within `limits`; with `plan_only`, just print the waiting runs."""
    if plan_only:
        tell(ready.house, planned, as_json=as_json)
        return
    reporter = TerminalReporter()
    for event in planned:
        play_sweep(ready.house, ready.client, event, course, reporter, ready.executor)
    sought = (
        None
        if limits is None
        else seek(ready.house, ready.client, planned[0], course, limits, reporter, ready.executor, actor=OPERATOR)
    )
    _show_played(ready, planned[0].sweep, sought, as_json=as_json)


def _show_played(ready: SweepSetup, name: str, sought: Sought | None, *, as_json: bool) -> None:
    found = show_progress(ready.house.store, ready.house.views(), name)
    if as_json:
        seeking = None if sought is None else {"added": sought.added, "stopped": sought.stopped}
        emit_json({**plain_progress(found), "seeking": seeking})
    else:
        show(found.sweep, found.groups)
        if sought is not None:
            say(f"{sought.added} siblings added; {sought.stopped}.")
    if found.sweep.is_in_vain:
        raise typer.Exit(1)
