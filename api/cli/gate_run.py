"""`flywheel gate run`: play a challenger against the champion on a benchmark, and judge it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from agents.envs.sandbox import PORT
from agents.envs.sites.first import FIRST
from agents.executors.executor import Executor
from agents.executors.local import FolderOf
from agents.models.servers.plan import Challenger
from eventlog.blobs import Blob
from eventlog.events import Artifact, BenchmarkFrozen, Rules, Test
from gate.benchmark import most_confirming_runs
from gate.decision import explain_decision, read_told, shows_figures
from gate.explain import explain as explained
from gate.live import describe_look
from gate.renewal import newest_successor
from projections.benchmarks import BENCHMARKS

from ..controllers.delegation import journals_of
from ..course import Course
from ..environments.admission import first_admission, see_admission
from ..environments.connect import Where, placed_at
from ..environments.suites import pin_suite
from ..errors import NotChampion, OtherBenchmark
from ..evaluations import artifacts
from ..evaluations.evaluate import challenge, play_and_settle
from ..history.disown import refuse_forged
from ..house import House
from ..locks import only_controller
from ..queries.benchmarks import find_benchmark, first_benchmark_name, is_saturated_now
from ..queries.champion import present_champion
from ..queries.verdicts import VerdictRow, find_verdict, verdict_row
from ..serving.challengers import find_challenger, find_referenced
from ..settings import Settings
from ..sweeps.executors import Way, executor_of
from ..sweeps.missing import describe_missing, read_missing
from ..sweeps.models import has_weights
from ..training.weights import folders_of
from .agent_options import AdviceOf, AgentOf, SightName, SightOf, Telling, player_of, sight_of
from .course_options import refuse_memoryless
from .output import ERR, AsJson, TerminalReporter, emit_json, open_project, print_facts, say
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, SuiteOf, Url
from .sweep_options import MaxParallel, Timeout, dialect_from, refuse_idle
from .sweep_setup import call_model_first

EXIT_CODES = {"promote": 0, "hold": 2, "void": 3}


def run_gate(
    challenger: Annotated[str | None, typer.Option(help="The artifact to judge, such as base@212.")] = None,
    champion: Annotated[
        str | None, typer.Option(help="The expected champion, such as base@0. Default: the present one.")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="The benchmark to play. Default: the newest of the site.")
    ] = None,
    site: Annotated[
        str | None, typer.Option(help="The site. Default: that of the benchmark, or the first bundled one.")
    ] = None,
    *,
    lora_adapter: Annotated[
        str | None,
        typer.Option(help="Judge the adapter at /path or volume:/path: a PEFT folder or a GGUF file. A policy plays."),
    ] = None,
    challenger_model: Annotated[
        str | None, typer.Option(help="Judge the merged .gguf model at /path or volume:/path, played by a policy.")
    ] = None,
    test: Annotated[
        Test, typer.Option(help="The test that decides; group_sequential and e_process may stop early.")
    ] = "group_sequential",
    executor: Annotated[
        Way, typer.Option(help="What plays: a plan over HTTP or in Chromium (browser), or a policy, here or remote.")
    ] = Way.PLAN,
    agent: AgentOf = None,
    advice: AdviceOf = Telling.TASK,
    sight: SightOf = SightName.TEXT,
    model: Annotated[
        str | None,
        typer.Option(help="With --executor policy: transformers:FOLDER, the base model of the judged weights."),
    ] = None,
    max_parallel: MaxParallel = 4,
    timeout: Timeout = None,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    as_json: AsJson = False,
) -> None:
    """Play champion and challenger on a benchmark and judge. Exit code 0: promote, 2: hold, 3: void.

    On standard error it says why runs are missing.
    """
    executor = _way_of(executor, challenger, lora_adapter, challenger_model)
    executor, playing_agent = player_of(agent, executor, timeout, model, advice)
    refuse_idle(executor, model, None)
    course = Course(max_parallel=max_parallel, timeout_s=timeout, rules=Rules.default(test))
    with open_project() as house:
        weights = Challenger(lora_adapter, challenger_model)
        served, chosen, memory = _challenger_of(house, challenger, weights, model, executor)
        _refuse_other_champion(house, champion)
        _refuse_unlike(house, executor, served, chosen, is_agent=playing_agent is not None)
        frozen = _benchmark(house, benchmark, site)
        where = Where(url, admin_url, sandbox, port, admin_port)
        with (
            only_controller(house, frozen.environment) as own,
            placed_at(house, frozen.environment, where, dialect_from(dialect)) as placed,
            executor_of(
                executor,
                served.settings,
                model=served.model,
                inside=placed.inside,
                folder_of=served.folder_of,
                journal_of=journals_of(house),
                log=house.store,
                agent=playing_agent,
                sight=sight_of(sight, executor),
            ) as playing,
        ):
            refuse_forged(house.views())
            reporter, client = TerminalReporter(), placed.environment
            see_admission(own, client, frozen.environment, first_admission(placed, reporter))
            doing = _prepare(own, frozen, chosen, playing)
            pinned = None if suite is None else pin_suite(own, client, frozen.environment, suite)
            own.blobs.put([memory])
            evaluation = challenge(own, frozen, chosen, course.rules, doing, suite=pinned)
            play_and_settle(own, client, evaluation, course, reporter, doing)
        views = house.views()
        state = find_verdict(views, evaluation)
        print_verdict(verdict_row(views, state), lambda _name: frozen, as_json=as_json)
        for line in describe_missing(read_missing(house.store, views, f"{evaluation}__")):
            ERR.print(Text(line), soft_wrap=True)
    raise typer.Exit(EXIT_CODES[state.decision or "void"])


@dataclass(frozen=True, slots=True)
class _Served:
    """Means of policies: settings, model, and the folders of checkpoints."""

    settings: Settings
    model: str | None
    folder_of: FolderOf


def _challenger_of(
    house: House, name: str | None, weights: Challenger, model: str | None, executor: Way
) -> tuple[_Served, Artifact, Blob]:
    """The challenger that is named, or the champion's memory with other weights, and what policies play it with."""
    if name is not None:
        chosen, memory = artifacts.challenger(house, name)
        return _Served(house.settings, model, folders_of(house)), chosen, memory
    if executor is Way.REMOTE:
        chosen, memory = artifacts.champion_with_weights(house, find_referenced(house, weights))
        return _Served(house.settings, model, folders_of(house)), chosen, memory
    found = find_challenger(house, weights, model)
    chosen, memory = artifacts.champion_with_weights(house, found.weights)
    return _Served(found.settings, found.model, found.folder_of), chosen, memory


def _way_of(executor: Way, challenger: str | None, adapter: str | None, model: str | None) -> Way:
    """The executor: a policy, here or remote, where a reference names the challenger.

    Raises BadParameter unless one challenger is named.
    """
    named = [each for each in (challenger, adapter, model) if each is not None]
    if len(named) != 1:
        raise typer.BadParameter(
            f"{len(named)} challengers are named: expected one of --challenger, --lora-adapter and --challenger-model"
        )
    if challenger is not None:
        return executor
    if executor not in {Way.PLAN, Way.POLICY, Way.REMOTE}:
        raise typer.BadParameter(f"weights are played by a policy, and not by {executor.value}: omit --executor")
    return Way.REMOTE if executor is Way.REMOTE else Way.POLICY


def _refuse_other_champion(house: House, name: str | None) -> None:
    """Raise NotChampion if the named artifact is not champion, and what `resolve_artifact` raises."""
    if name is None:
        return
    present = present_champion(house.views()).pointed_artifact()
    if str(artifacts.resolve_artifact(house, name)[0]) != str(present):
        raise NotChampion(actual=name, expected=str(present))


def _refuse_unlike(house: House, executor: Way, served: _Served, challenger: Artifact, *, is_agent: bool) -> None:
    """Raise BadParameter if both arms would play alike, or if nothing plays the challenger's weights.

    Arms of a policy differ in their weights, if these are loaded in this process or by the endpoint, or in what memory
    tells them. Arms of an agent from outside differ in what they are told.
    """
    present = present_champion(house.views()).pointed_artifact()
    if executor is Way.REMOTE:
        if present.weights == challenger.weights:
            raise typer.BadParameter(
                f"champion and challenger both have the weights {challenger.weights}, and --executor remote tells no "
                "memory: expected a challenger with other weights, such as ck-3f9a1c22@0"
            )
        return
    refuse_memoryless(executor)
    if executor is not Way.POLICY and not is_agent:
        return
    is_served = has_weights(served.settings, None if is_agent else served.model)
    if present.weights != challenger.weights and not is_served:
        way_out = "FLYWHEEL_MODEL=transformers:FOLDER" if is_agent else "--model transformers:FOLDER"
        raise typer.BadParameter(
            f"the challenger has the weights {challenger.weights} and the champion {present.weights}, and "
            f"{'an agent of your own' if is_agent else 'an endpoint'} plays with one model: expected {way_out}, "
            "the base model of both"
        )
    if (present.weights, present.memory.digest) == (challenger.weights, challenger.memory.digest):
        raise typer.BadParameter(
            f"champion and challenger both have the weights {challenger.weights} and the same memory: expected a "
            "challenger such as ck-3f9a1c22@0"
        )


def _benchmark(house: House, name: str | None, site: str | None) -> BenchmarkFrozen:
    """The named benchmark, or the newest of the site. Raises Unknown, OtherBenchmark."""
    views = house.views()
    wanted = name or newest_successor(views.find(BENCHMARKS), first_benchmark_name(site or FIRST))
    found = find_benchmark(views, wanted).frozen_event()
    if site is not None and site != found.environment:
        raise OtherBenchmark(actual=wanted, environment=found.environment, expected=site)
    return found


def _prepare(house: House, benchmark: BenchmarkFrozen, challenger: Artifact, executor: Executor) -> Executor:
    """Ask the executor's model its first question, and warn. Returns the executor to play with. Raises ModelFailure."""
    playing = call_model_first(executor)
    _warn(house, benchmark, challenger)
    return playing


def _warn(house: House, benchmark: BenchmarkFrozen, challenger: Artifact) -> None:
    """Print what keeps this evaluation from promoting, before it spends alpha."""
    if challenger.memory.without:
        ERR.print(f"left out, because it is quarantined: {', '.join(challenger.memory.without)}")
    if is_saturated_now(house.views(), benchmark):
        ERR.print(f"{benchmark.benchmark} is saturated: the champion passed every sealed run of it", soft_wrap=True)


def print_verdict(row: VerdictRow, benchmark_of: Callable[[str], BenchmarkFrozen], *, as_json: bool) -> None:
    """Print a verdict as far as it may be told, or what is known of an evaluation without one."""
    if as_json:
        emit_json(row)
    elif row.verdict is None:
        say(f"{row.evaluation} has no verdict yet; `flywheel run` goes on with it")
        for look in row.looks_so_far()[-1:]:
            again = most_confirming_runs(benchmark_of(row.benchmark), row.opening_rules())
            say(describe_look(look, row.runs, row.most_runs, again))
    else:
        explain = explained if shows_figures(row.verdict) else explain_decision
        print_facts(explain(read_told(row.verdict)), title=row.evaluation)
