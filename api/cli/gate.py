"""`flywheel gate`: judge a challenger, and explain or recompute verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agents.envs.sandbox import PORT
from agents.envs.sites.first import FIRST
from eventlog.events import Artifact, BenchmarkFrozen, Rules, Test
from gate.bands import explain_bands
from gate.benchmark import sealed_instances
from gate.explain import explain as explained
from gate.figures import count_noun, decimal
from gate.inspections import pay_for_inspection
from gate.live import describe_look
from gate.renewal import newest_successor
from projections.benchmarks import BENCHMARKS
from projections.engine.views import PostgresViews, Views
from projections.verdicts import VERDICTS, VerdictState

from ..controllers.delegation import journals_of
from ..course import Course
from ..environments.admission import first_admission, see_admission
from ..environments.connect import Where, placed_at
from ..environments.suites import pin_suite
from ..errors import FiguresSealed, NotChampion, OtherBenchmark, VerdictDiffers, VerdictsDiffer
from ..evaluations import artifacts
from ..evaluations.evaluate import challenge, play_and_settle
from ..evaluations.picture import picture
from ..evaluations.verify import Recomputed, recompute, recompute_all
from ..history.disown import refuse_forged
from ..house import House
from ..locks import only_controller
from ..queries.benchmarks import find_benchmark, first_benchmark_name, is_saturated_now, shortage
from ..queries.champion import present_champion
from ..queries.ledgers import Ledger, describe_total, list_ledgers, show_ledger
from ..queries.verdicts import find_verdict, may_tell, verdict_row
from ..sweeps.executors import Way, executor_of
from ..sweeps.models import local_folder
from ..training.weights import folders_of
from .course_options import refuse_memoryless
from .output import ERR, AsJson, AsOf, TerminalReporter, emit_json, open_project, print_facts, print_rows, say, table
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, SuiteOf, Url
from .sweep_options import MaxParallel, Timeout, dialect_from, refuse_idle

app = typer.Typer(help="The gate: run, list, ledger, explain, verify.", no_args_is_help=True)
EXIT_CODES = {"promote": 0, "hold": 2, "void": 3}
Evaluation = Annotated[str, typer.Argument(help="The evaluation, such as eval-1.")]


@app.command("run")
def run_(
    challenger: Annotated[str, typer.Option(help="The artifact to judge, such as base@212.")],
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
    test: Annotated[
        Test, typer.Option(help="The test that decides; group_sequential and e_process may stop early.")
    ] = "group_sequential",
    executor: Annotated[
        Way, typer.Option(help="What plays: a plan over HTTP or in Chromium (browser), or a policy.")
    ] = Way.PLAN,
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
    """Play champion and challenger on a benchmark and judge. Exit code 0: promote, 2: hold, 3: void."""
    refuse_idle(executor, model, None)
    rules = Rules.default(test)
    course = Course(max_parallel=max_parallel, timeout_s=timeout, rules=rules)
    with open_project() as house:
        chosen, memory = artifacts.challenger(house, challenger)
        _refuse_other_champion(house, champion)
        _refuse_unlike(house, executor, model, chosen)
        frozen = _benchmark(house, benchmark, site)
        folders, journals = folders_of(house), journals_of(house)
        where = Where(url, admin_url, sandbox, port, admin_port)
        with (
            only_controller(house, frozen.environment) as own,
            placed_at(house, frozen.environment, where, dialect_from(dialect)) as placed,
            executor_of(
                executor, house.settings, model=model, inside=placed.inside, folder_of=folders, journal_of=journals
            ) as doing,
        ):
            refuse_forged(house.views())
            reporter, client = TerminalReporter(), placed.environment
            see_admission(own, client, frozen.environment, first_admission(placed, reporter))
            _warn(own, frozen, chosen, rules)
            pinned = None if suite is None else pin_suite(own, client, frozen.environment, suite)
            own.blobs.put([memory])
            evaluation = challenge(own, frozen, chosen, rules, doing, suite=pinned)
            play_and_settle(own, client, evaluation, course, reporter, doing)
        views = house.views()
        state = find_verdict(views, evaluation)
        _show(views, state, as_json=as_json)
    raise typer.Exit(EXIT_CODES[state.decision or "void"])


def _refuse_other_champion(house: House, name: str | None) -> None:
    """Raise NotChampion if the named artifact is not champion, and what `resolve_artifact` raises."""
    if name is None:
        return
    present = present_champion(house.views()).pointed_artifact()
    if str(artifacts.resolve_artifact(house, name)[0]) != str(present):
        raise NotChampion(actual=name, expected=str(present))


def _refuse_unlike(house: House, executor: Way, model: str | None, challenger: Artifact) -> None:
    """Raise BadParameter if both arms would play alike: policies differ only in their weights.

    Each arm plays with its own weights only if they are loaded in this process.
    """
    if executor is not Way.POLICY or local_folder(house.settings, model) is None:
        refuse_memoryless(executor)
    elif present_champion(house.views()).pointed_artifact().weights == challenger.weights:
        raise typer.BadParameter(
            f"champion and challenger both have the weights {challenger.weights}, and a policy is judged by its "
            "weights: expected a challenger such as ck-3f9a1c22@0"
        )


def _benchmark(house: House, name: str | None, site: str | None) -> BenchmarkFrozen:
    """The named benchmark, or the newest of the site. Raises Unknown, OtherBenchmark."""
    views = house.views()
    wanted = name or newest_successor(views.find(BENCHMARKS), first_benchmark_name(site or FIRST))
    found = find_benchmark(views, wanted).frozen_event()
    if site is not None and site != found.environment:
        raise OtherBenchmark(actual=wanted, environment=found.environment, expected=site)
    return found


def _warn(house: House, benchmark: BenchmarkFrozen, challenger: Artifact, rules: Rules) -> None:
    """Print what keeps this evaluation from promoting, before it spends alpha."""
    if challenger.memory.without:
        ERR.print(f"left out, because it is quarantined: {', '.join(challenger.memory.without)}")
    if sealed_instances(benchmark) < rules.min_pairs:
        ERR.print(f"{benchmark.benchmark} can only void: {shortage(benchmark, rules)}", soft_wrap=True)
    if is_saturated_now(house.views(), benchmark.benchmark):
        ERR.print(f"{benchmark.benchmark} is saturated: the champion passed every sealed run of it", soft_wrap=True)


@app.command("list")
def list_(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List evaluations and their verdicts."""
    with open_project() as house:
        views = house.views_at(as_of)
        rows = [msgspec.to_builtins(verdict_row(views, state)) for state in views.find(VERDICTS).values()]
    columns = ("evaluation", "decision", "champion_name", "challenger_name", "benchmark", "opened_since")
    print_rows(rows, columns, as_json=as_json, empty="no evaluations yet; `flywheel run` opens one")


@app.command("ledger")
def ledger_(
    benchmark: Annotated[str | None, typer.Option(help="One benchmark. Default: all of them.")] = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Show the alpha of each benchmark, the evaluations that spent it, and what is left."""
    with open_project() as house:
        views = house.views_at(as_of)
        found = list_ledgers(views) if benchmark is None else (show_ledger(views, benchmark).ledger,)
    if as_json:
        emit_json(found)
        return
    for each in found:
        _show_ledger(each)
    if found and benchmark is None:
        say(describe_total(found, house.settings.alpha_cap))
    if not found:
        say("no benchmark yet; `flywheel run` freezes one")


@app.command("explain")
def explain_(
    evaluation: Evaluation,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it to FILE.svg or FILE.png; needs matplotlib.")
    ] = None,
    spend: Annotated[
        bool, typer.Option("--spend", help="Tell sealed figures now; the benchmark then judges one challenger fewer.")
    ] = False,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Print a verdict with the numbers that decided it, and optionally draw it.

    While the benchmark can judge further challengers, its sealed part is told in coarse bands, unless you --spend.
    """
    with open_project() as house:
        views = house.views_at(as_of)
        state = find_verdict(views, evaluation)
        is_sealed = state.decision is not None and not may_tell(views, state.benchmark, evaluation)
        if spend and is_sealed:
            views = _spend(house, state)
            is_sealed = not may_tell(views, state.benchmark, evaluation)
        if plot is not None:
            if is_sealed:
                raise FiguresSealed(evaluation=evaluation, benchmark=state.benchmark)
            picture(house, state, plot)
        _show(views, state, as_json=as_json)
    if plot is not None and not as_json:
        say(f"drawn: {plot}")


@app.command()
def verify(
    evaluation: Annotated[str | None, typer.Argument(help="The evaluation, such as eval-1.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All verdicts in the log.")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge again from the log and compare the verdicts byte for byte. Exit code 1 if one differs.

    A verdict depends on events alone, so it can be recomputed after an erasure too.
    """
    if (evaluation is None) != all_:
        raise typer.BadParameter("expected an evaluation, or --all")
    with open_project() as house:
        if evaluation is None:
            found = recompute_all(house)
        else:
            found = (recompute(house, find_verdict(house.views(), evaluation)),)
    differing = [each for each in found if each.outcome == "different"]
    if as_json and all_:
        emit_json([each.summary() for each in found])
    elif as_json and not differing:
        emit_json(found[0].summary())
    elif not as_json:
        _show_recomputed(found)
    if differing and all_:
        names = ", ".join(each.evaluation for each in differing)
        raise VerdictsDiffer(total=len(found), count=len(differing), actual=names)
    for each in differing:
        raise VerdictDiffers(evaluation=each.evaluation, actual=each.again, expected=each.recorded)


def _show_recomputed(found: tuple[Recomputed, ...]) -> None:
    for each in found:
        if each.outcome == "equal":
            size = len(each.recorded.encode())
            say(f"equal: {each.evaluation} recomputes to the same {size} bytes: {each.decision}")
        else:
            say(f"{each.outcome}: {each.evaluation}")
    if not found:
        say("no verdict yet; `flywheel run` reaches one")


def _show_ledger(shown: Ledger) -> None:
    used = f"{count_noun(shown.challenges, 'challenger')} of {shown.challengers}"
    looks = f" and {count_noun(len(shown.inspected), 'inspection')}" if shown.inspected else ""
    left = f"spent {decimal(shown.spent)} on {used}{looks}, left {decimal(shown.left)}"
    over = f"; exhausted: freeze its successor with `flywheel benchmark refresh {shown.benchmark}`"
    say(f"{shown.benchmark}: alpha {decimal(shown.alpha)}, {left}{over if shown.is_exhausted else ''}")
    columns = ("number", "evaluation", "alpha", "champion", "challenger", "since", "decision")
    rows = [
        (e.challenge or "none", e.evaluation, decimal(e.alpha), e.champion, e.challenger, e.since, e.decision)
        for e in shown.evaluations
    ]
    table(columns, rows, empty="  no evaluation was opened on it")


def _spend(house: House, state: VerdictState) -> PostgresViews:
    """The present views, after the look at an evaluation's sealed figures was paid for."""
    cost = pay_for_inspection(house.store, state.benchmark, state.evaluation, "operator")
    ERR.print(f"spent alpha {decimal(cost)} of {state.benchmark}: it judges one challenger fewer", soft_wrap=True)
    return house.views()


def _show(views: Views, state: VerdictState, *, as_json: bool) -> None:
    verdict = state.verdict_reached()
    if as_json:
        emit_json(verdict_row(views, state))
    elif verdict is None:
        say(f"{state.evaluation} has no verdict yet; `flywheel run` goes on with it")
        for look in state.looks_so_far()[-1:]:
            say(describe_look(look, state.runs, state.most_runs))
    else:
        tell = explained if may_tell(views, state.benchmark, state.evaluation) else explain_bands
        print_facts(tell(verdict), title=state.evaluation)
