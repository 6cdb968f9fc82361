"""`flywheel worker`: a process that plays queued rollouts, on this or another machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from agents.envs.environment import Environment
from agents.envs.sandbox import PORT
from agents.envs.sites.first import FIRST
from agents.envs.unclosed_instances import UNCLOSED
from agents.executors.executor import Executor
from agents.executors.outside.agent_spec import AgentSpec
from agents.models.model import Model
from agents.rollouts.dispatching.durable import OUTAGE_S, SHORTEST_RESCUE_S, Terms
from agents.rollouts.dispatching.queue import RolloutQueue
from agents.rollouts.play import PLAN
from agents.suites.tasks import Operations
from eventlog.database import OutagePatience
from projections.runs import PLANLESS

from ..controllers.delegation import journals_of
from ..controllers.fast import Controller
from ..course import Course
from ..environments.connect import Where, placed_at
from ..environments.suites import operations_on, pin_suite
from ..house import House
from ..serving.reactor import react
from ..sweeps.advisor import advisor_of
from ..sweeps.executors import View, Way, executor_of
from ..sweeps.models import weights_endpoint
from ..sweeps.step_checks import Checking, Watching, check_nothing, refuse_unchecked, watching_of
from ..sweeps.worker import ROLES, Controlling, Reacting, Role, see_site, work
from ..training.weights import folders_of
from . import course_options as options
from .agent_options import AdviceOf, AgentOf, SightName, SightOf, Telling, player_of, sight_of
from .output import TerminalReporter, open_project
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, SuiteOf, Url
from .sweep_options import How, MaxParallel, VerifySteps, dialect_from
from .sweep_setup import call_model_first
from .worker_notices import PlayedCount, TellNotice, notice_as_json, notice_as_text, tell_notice


def worker(
    *,
    roles: Annotated[
        str, typer.Option(metavar="runner[,projector][,controller][,reactor]", help="Roles of this process.")
    ] = "runner",
    site: Annotated[str, typer.Option(help="The site whose rollouts to play.")] = FIRST,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    executor: How = Way.PLAN,
    agent: AgentOf = None,
    advice: AdviceOf = Telling.TASK,
    sight: SightOf = SightName.TEXT,
    verify_steps: VerifySteps = False,
    max_parallel: MaxParallel = 4,
    timeout: Annotated[
        float, typer.Option(min=1, help="Time limit of a run in seconds; beyond it the run counts as missing.")
    ] = 900,
    rescue_after: Annotated[
        float,
        typer.Option(
            min=SHORTEST_RESCUE_S, help="Seconds without a heartbeat after which another worker counts as lost."
        ),
    ] = 30,
    outage: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for a database that stops answering. Runs are kept meanwhile.")
    ] = OUTAGE_S,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Exit when the queue is empty.")] = False,
    retry_parked: Annotated[
        bool, typer.Option("--retry-parked", help="First put parked jobs back in the queue.")
    ] = False,
    rule: options.Rule = options.EvidenceRule.PAIRED,
    rounds: options.Rounds = 8,
    budget_runs: options.BudgetRuns = None,
    budget_dollars: options.BudgetDollars = None,
    budget_minutes: options.BudgetMinutes = None,
    verdicts: options.Verdicts = None,
    cluster: options.Clusters = None,
    deployment: Annotated[
        str, typer.Option(help="reactor: name under which champions are recorded as deployed, one a model server.")
    ] = "vllm",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line for each event.")] = False,
) -> None:
    """Play queued rollouts, alone or with other workers.

    With --until-empty, the exit code is 1 if jobs stay parked, or if runs were played and none could be graded. The
    role controller runs the fast loop within its budget, as `flywheel run` does; then the worker exits. The role
    reactor loads each new champion into the vLLM server of FLYWHEEL_MODEL and FLYWHEEL_MODEL_BASE.
    """
    chosen = _roles(roles)
    executor, playing_agent = player_of(agent, executor, timeout, advice=advice)
    seen = sight_of(sight, executor)
    if "controller" in chosen:
        options.refuse_memoryless(executor)
    limits = Course(max_rounds=rounds, max_parallel=max_parallel, timeout_s=timeout, rule=rule.rule())
    course = options.within(
        replace(limits, verify_steps=verify_steps),
        runs=budget_runs,
        dollars=budget_dollars,
        minutes=budget_minutes,
        verdicts=verdicts,
        clusters=cluster,
    )
    terms = Terms(
        max_parallel, timeout_s=timeout, rescue_after_s=rescue_after, until_empty=until_empty, outage_s=outage
    )
    where = Where(url, admin_url, sandbox, port, admin_port)
    asked = _Asked(
        chosen, site, where, dialect, suite, executor, playing_agent, seen, course, terms, retry_parked, deployment
    )
    tell, is_over = notice_as_json if as_json else notice_as_text, Event()
    with open_project(OutagePatience(outage, is_over.is_set)) as house:
        is_done = _work_as_asked(house, asked, tell, is_over)
    if until_empty and not is_done:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of the command, as the roles need them."""

    roles: list[Role]
    site: str
    where: Where
    dialect: Path | None
    suite: str | None
    way: Way
    agent: AgentSpec | None
    sight: View
    course: Course
    terms: Terms
    retries_parked: bool
    deployment: str


@dataclass(frozen=True, slots=True)
class _Place:
    """The site as the roles use it: `client` is there for a runner, `controlling` for a controller."""

    client: Environment | None = None
    executor: Executor = PLAN
    checking: Checking = check_nothing
    advisor: Model | None = None
    controlling: Controlling | None = None


def _work_as_asked(house: House, asked: _Asked, tell: TellNotice, is_over: Event) -> bool:
    """Work in the roles until told to stop, or until the queue is empty.

    Returns False if jobs are parked, or if runs were played and none could be graded.
    """
    queue, site, played = RolloutQueue(house.engine, asked.site), asked.site, PlayedCount()
    with ExitStack() as stack:
        plays = not {"runner", "controller"}.isdisjoint(asked.roles)
        place = _open_place(house, asked, stack) if plays else _Place()
        if place.client is not None and asked.retries_parked:
            tell("again", count=queue.retry_parked())
        reacting = _reactor(house, asked.deployment, tell, stack) if "reactor" in asked.roles else None
        tell("started", roles=" and ".join(asked.roles), site=site)
        work(
            house,
            place.client,
            site,
            asked.terms,
            lambda notice: tell_notice(tell, played.count(notice)),
            place.executor,
            follows="projector" in asked.roles,
            checking=place.checking,
            advisor=place.advisor,
            rule=asked.course.rule,
            controlling=place.controlling,
            reacting=reacting,
            give_up=is_over.set,
        )
        if UNCLOSED.number:
            tell("unclosed", count=UNCLOSED.number)
        parked = len(queue.parked_jobs()) if place.client is not None else 0
        if played.is_in_vain:
            tell("ungraded", count=played.missing)
        tell("stopped", open=queue.open(), parked=parked)
    return not parked and not played.is_in_vain


def _reactor(house: House, name: str, tell: TellNotice, stack: ExitStack) -> Reacting:
    """The reactor before the model server of the settings. Raises NoModel, BadEndpoint."""
    server = stack.enter_context(weights_endpoint(house.settings, None, folders_of(house)))
    return partial(react, house, name, server, lambda said: tell("deployment", said=said))


def _open_place(house: House, asked: _Asked, stack: ExitStack) -> _Place:
    """Reach the site and start the executor; `stack` closes both."""
    reporter, is_runner = TerminalReporter(), "runner" in asked.roles
    placed = stack.enter_context(placed_at(house, asked.site, asked.where, dialect_from(asked.dialect)))
    see_site(house, placed, asked.site, reporter)
    own, journals, inside = folders_of(house), journals_of(house), placed.inside
    playing = executor_of(
        asked.way,
        house.settings,
        inside=inside,
        folder_of=own,
        journal_of=journals,
        log=house.store,
        agent=asked.agent,
        sight=asked.sight,
    )
    executor = stack.enter_context(playing)
    executor = call_model_first(executor) if is_runner else executor
    checks = asked.course.verify_steps
    checking = _step_checks(house, placed.environment, asked.site, stack) if checks else check_nothing
    asking = advisor_of(house.settings, reporter.say, timeout_s=asked.terms.timeout_s, is_asked=is_runner)
    advisor = stack.enter_context(asking)
    client = placed.environment if is_runner else None
    controlling = None
    if "controller" in asked.roles:
        controlling = partial(_control, _controller(house, placed.environment, asked, reporter, executor))
    return _Place(client, executor, checking, advisor, controlling)


def _controller(
    house: House, client: Environment, asked: _Asked, reporter: TerminalReporter, executor: Executor
) -> Controller:
    """The fast loop with the suite that is named, or else the one that the controller finds."""
    pinned = None
    if asked.suite is not None:
        follows_plan = executor.name not in PLANLESS
        pinned = pin_suite(house, client, asked.site, asked.suite, follows_plan=follows_plan)
    return Controller(house, client, asked.site, asked.course, reporter, executor, suite=pinned)


def _step_checks(house: House, client: Environment, site: str, stack: ExitStack) -> Checking:
    """Checks of steps by each sweep's own suite version. Raises NoJudge if they need a judge and there is none."""
    refuse_unchecked(house.settings, client, verify_steps=True)

    @cache
    def check_for(suite: str | None) -> tuple[Watching, Operations]:
        operations = operations_on(house, site, suite)
        watches = watching_of(house.settings, client, operations, verify_steps=True)
        return stack.enter_context(watches), operations

    return check_for


def _control(controller: Controller, is_told_to_stop: Callable[[], bool]) -> str:
    """Run a controller until it is done or told to stop. Reports and returns why it stopped."""
    why = replace(controller, is_told_to_stop=is_told_to_stop).run()
    controller.reporter.say(why)
    return why


def _roles(named: str) -> list[Role]:
    chosen = [role for role in ROLES if role in named.split(",")]
    if not chosen or set(named.split(",")) - set(ROLES):
        raise typer.BadParameter(
            f"{named!r} is not a list of roles; expected {' or '.join(ROLES)}, separated by commas"
        )
    return chosen
