"""`flywheel run`: run the controller and print a summary."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agents.envs.sandbox import PORT
from agents.envs.sites.first import FIRST
from agents.executors.outside.agent_spec import AgentSpec
from eventlog.events import SftQuery
from projections.frozen_datasets import CHECKPOINTS
from projections.runs import PLANLESS

from ..controllers.both import BothLoops, Play
from ..controllers.delegation import journals_of
from ..controllers.fast import Controller
from ..controllers.rounds import never
from ..controllers.slow_next import SlowCourse
from ..controllers.summary import Summary, summarise
from ..course import Course
from ..datasets import freeze
from ..environments.admission import first_admission
from ..environments.connect import Placed, Where, placed_at
from ..environments.suites import pin_suite
from ..house import House
from ..sweeps.executors import MODELLED, View, Way, executor_of
from ..training.weights import folders_of
from . import course_options as options
from .agent_options import AdviceOf, AgentOf, SightName, SightOf, Telling, player_of, sight_of
from .output import AsJson, TerminalReporter, emit_json, open_project, print_facts, say
from .rounds import RoundsReporter
from .run_slow import BaseOf, SiblingsOf, StagesOf, WarmUpOf, course_of, go_slowly, refuse_other_weights, warming_of
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, SuiteOf, Url
from .sweep_options import MaxParallel, Tasks, Timeout, VerifySteps, dialect_from
from .sweep_setup import call_model_first


class Loop(StrEnum):
    """The loop to run."""

    FAST = "fast"
    SLOW = "slow"
    BOTH = "both"


def run(
    loop: Annotated[
        Loop, typer.Option(help="fast improves the agent's memory, slow its weights, both gives turns to both.")
    ] = Loop.FAST,
    site: Annotated[str, typer.Option(help="The environment to learn on: a bundled or a registered one.")] = FIRST,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, max=1000, help="Maximum number of rounds (sweeps) [8]. slow: in total, default one per stage."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=500, help="New seeds per task and round.")] = 12,
    max_parallel: MaxParallel = 4,
    timeout: Timeout = None,
    *,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    budget_runs: options.BudgetRuns = None,
    budget_dollars: options.BudgetDollars = None,
    budget_minutes: options.BudgetMinutes = None,
    verdicts: options.Verdicts = None,
    cluster: options.Clusters = None,
    rule: options.Rule = options.EvidenceRule.PAIRED,
    verify_steps: VerifySteps = False,
    executor: Annotated[
        Way, typer.Option(help="What plays: a plan over HTTP or in Chromium (browser), one model (policy) or several.")
    ] = Way.PLAN,
    agent: AgentOf = None,
    advice: AdviceOf = Telling.TASK,
    sight: SightOf = SightName.TEXT,
    base: BaseOf = None,
    warm_up: WarmUpOf = None,
    stages: StagesOf = None,
    siblings: SiblingsOf = 8,
    task: Tasks = None,
    as_json: AsJson = False,
) -> None:
    """Learn from runs, in rounds, until the budget is spent.

    Stops earlier if nothing is left to try. Resumes from the log if it was interrupted.

    A round of the fast loop plays task instances, clusters the failures, proposes fixes and tries them. New memory
    becomes a challenger; the gate judges it and promotes or holds it. A round of the slow loop plays a sweep, freezes a
    dataset, trains a checkpoint and sends it to the gate. With both, the next round goes to the loop that gained more
    for its cost.
    """
    executor, playing = player_of(agent, executor, timeout, advice=advice)
    seen = sight_of(sight, executor)
    budget = {
        "--budget-runs": budget_runs,
        "--budget-dollars": budget_dollars,
        "--budget-minutes": budget_minutes,
        "--verdicts": verdicts,
        "--cluster": cluster,
    }
    _refuse_unlike(loop, executor, playing, budget, warm_up)
    began = time.monotonic()
    course = Course(
        seeds_per_round=seeds,
        max_rounds=rounds or Course().max_rounds,
        max_parallel=max_parallel,
        timeout_s=timeout,
        verify_steps=verify_steps,
        rule=rule.rule(),
    )
    course = options.within(
        course,
        runs=budget_runs,
        dollars=budget_dollars,
        minutes=budget_minutes,
        verdicts=verdicts,
        clusters=cluster,
    )
    slow, warming = course_of(course, stages, rounds, siblings, task), warming_of(warm_up, base)
    with open_project() as house:
        if loop is Loop.BOTH:
            refuse_other_weights(house, executor, base, playing)
        where = Where(url, admin_url, sandbox, port, admin_port)
        with placed_at(house, site, where, dialect_from(dialect)) as placed:
            quickly = partial(_go, house, placed, course, executor, suite, playing, seen)
            slowly = partial(go_slowly, house, placed, slow, base, warming, TerminalReporter(), suite, agent=playing)
            plays_weights = executor in MODELLED or playing is not None
            both = _both_loops(house, site, course, slow, base, plays_weights=plays_weights)
            why = _run_loop(loop, both, quickly, slowly)
        summary = summarise(house, site, loop.value, why, time.monotonic() - began)
    emit_json(summary.plain()) if as_json else _show(summary)


def _both_loops(
    house: House, site: str, course: Course, slow: SlowCourse, base: str | None, *, plays_weights: bool
) -> BothLoops:
    may_warm_up = base is None and not plays_weights
    say = TerminalReporter().say
    return BothLoops(house, site, course, slow, say, may_warm_up=may_warm_up, plays_weights=plays_weights)


def _refuse_unlike(
    loop: Loop,
    executor: Way,
    playing_agent: AgentSpec | None,
    budget: Mapping[str, object | None],
    warm_up: Path | None,
) -> None:
    """Raise BadParameter for options that the loop does not have."""
    if playing_agent is not None and warm_up is not None:
        raise typer.BadParameter("--warm-up trains on a policy's prompts, which are not the agent's: use --base")
    if loop is Loop.SLOW:
        options.refuse_fast(budget)
    else:
        options.refuse_memoryless(executor)


def _run_loop(loop: Loop, both: BothLoops, quickly: Play, slowly: Play) -> str:
    """Run one loop or both; returns why it ended."""
    if loop is Loop.SLOW:
        return slowly(never)
    why = quickly(never) if loop is Loop.FAST else both.run({"fast": quickly, "slow": slowly})
    _keep_what_passed(both.house, both.site)
    return why


def _go(
    house: House,
    placed: Placed,
    course: Course,
    way: Way,
    suite: str | None,
    agent: AgentSpec | None,
    sight: View,
    is_turn_over: Callable[[], bool],
) -> str:
    reporter, site = RoundsReporter(), placed.site.name
    admit = first_admission(placed, reporter)
    client = placed.environment
    own = folders_of(house)  # a champion may be a checkpoint
    playing = executor_of(
        way,
        house.settings,
        inside=placed.inside,
        folder_of=own,
        journal_of=journals_of(house),
        log=house.store,
        agent=agent,
        sight=sight,
    )
    with playing as executor:
        doing = call_model_first(executor)
        follows_plan = doing.name not in PLANLESS
        pinned = None if suite is None else pin_suite(house, client, site, suite, follows_plan=follows_plan)
        controller = Controller(
            house,
            client,
            site,
            course,
            reporter,
            doing,
            admit,
            reporter.watch,
            is_turn_over=is_turn_over,
            suite=pinned,
        )
        with reporter.show_live():
            return controller.run()


def _keep_what_passed(house: House, site: str) -> None:
    """Freeze a dataset of the site's passed plan runs, unless the same dataset exists."""
    made = freeze.make_rows(house.store, house.blobs, house.views(), SftQuery(environment=site, outside="none"))
    if made.height and f"dataset/{made.digest}" not in house.views().find(CHECKPOINTS):
        freeze.freeze_dataset(house.store, made, "controller")


def _show(summary: Summary) -> None:
    say("")
    print_facts(summary.rows(), title=f"flywheel run --loop {summary.loop}")
    say("")
    say("Try next:")
    program = "flywheel" if shutil.which("flywheel") else os.path.relpath(sys.argv[0])
    for command, what in (
        ("champion history", "list all champions with the evidence for each"),
        ("replay --verify", "recompute every projection from the log and compare"),
        ("champion back --reason test", "restore the previous champion"),
    ):
        say(f"  {program + ' ' + command:<50} {what}")
