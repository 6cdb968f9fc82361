"""`flywheel gate`: judge a challenger, and explain or recompute what was judged."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import typer

from eventlog.events import Artifact, BenchmarkFrozen, Rules
from gate.benchmark import sealed_instances
from gate.explain import explain as explained
from gate.renewal import is_saturated, newest
from projections.benchmarks import BENCHMARKS
from projections.champions import CHAMPION, CHAMPIONS
from projections.verdicts import VERDICTS, VerdictState

from .. import artifacts
from ..admitting import admitting, see_admission
from ..decide import Course, benchmark_name, known, too_small
from ..errors import NotChampion, OtherBenchmark, Unknown, VerdictDiffers
from ..evaluate import challenge, judged, play_and_settle
from ..exclusive import only_controller
from ..executing import Way, executor_of
from ..house import House
from ..reading import read_position
from ..sites import Where, placed_at
from .output import ERR, AsJson, AsOf, TerminalReporter, emit_json, facts, listing, opened, say
from .run import refuse_memoryless
from .sites import AdminUrl, Url
from .sweep_options import Timeout

app = typer.Typer(help="The gate: run, list, explain, verify.", no_args_is_help=True)
SITE = "marketplace"
EXIT_CODES = {"promote": 0, "hold": 2, "void": 3}
Evaluation = Annotated[str, typer.Argument(help="The evaluation, such as eval-1.")]


Test = Literal["sign_flip", "e_process", "bootstrap"]


@app.command("run")
def run_(
    challenger: Annotated[str, typer.Option(help="The artifact to judge, such as base@212.")],
    champion: Annotated[
        str | None, typer.Option(help="Who has to be champion, such as base@0. Default: whoever is.")
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="The benchmark to play. Default: the site's newest.")] = None,
    site: Annotated[str | None, typer.Option(help="Its site. Default: the benchmark's, or marketplace.")] = None,
    *,
    test: Annotated[Test, typer.Option(help="What decides; e_process may stop early.")] = "sign_flip",
    executor: Annotated[Way, typer.Option(help="How: a plan over HTTP or in Chromium (browser).")] = Way.PLAN,
    max_parallel: Annotated[int, typer.Option(min=1, max=64, help="Runs side by side.")] = 4,
    timeout: Timeout = None,
    url: Url = None,
    admin_url: AdminUrl = None,
    as_json: AsJson = False,
) -> None:
    """Play champion and challenger on a benchmark and judge. Exit code 0 promote, 2 hold, 3 void."""
    refuse_memoryless(executor)
    rules = Rules.seeds() if test == "bootstrap" else Rules(test=test)
    course = Course(max_parallel=max_parallel, timeout_s=timeout, rules=rules)
    with opened() as house:
        chosen, memory = artifacts.challenger(house, challenger)
        _refuse_other_champion(house, champion)
        frozen = _benchmark(house, benchmark, site)
        with (
            only_controller(house.engine, frozen.environment),
            placed_at(house, frozen.environment, Where(url, admin_url)) as placed,
            executor_of(executor, house.settings, tabs=placed.tabs) as doing,
        ):
            reporter, client = TerminalReporter(), placed.environment
            see_admission(house, client, frozen.environment, admitting(house, placed, reporter))
            _warn(house, frozen, chosen, rules)
            house.blobs.put([memory])
            evaluation = challenge(house, frozen, chosen, rules, doing)
            play_and_settle(house, client, evaluation, course, reporter, doing)
        state = _found(house, evaluation)
    _show(state, as_json=as_json)
    raise typer.Exit(EXIT_CODES[state.decision or "void"])


def _refuse_other_champion(house: House, name: str | None) -> None:
    """Raises NotChampion, and what naming an artifact does."""
    if name is None:
        return
    present = known(house.views().get(CHAMPIONS, CHAMPION)).pointed()
    if str(artifacts.resolve(house, name)[0]) != str(present):
        raise NotChampion(actual=name, expected=str(present))


def _benchmark(house: House, name: str | None, site: str | None) -> BenchmarkFrozen:
    """The benchmark that was named, or the newest of the site. Raises Unknown, OtherBenchmark."""
    views = house.views()
    benchmarks = views.find(BENCHMARKS)
    wanted = name or newest(benchmarks, benchmark_name(site or SITE))
    if wanted not in benchmarks:
        raise Unknown(what="benchmark", actual=wanted, way_out="`flywheel benchmark list` names them.")
    found = benchmarks[wanted].frozen()
    if site is not None and site != found.environment:
        raise OtherBenchmark(actual=wanted, environment=found.environment, expected=site)
    return found


def _warn(house: House, benchmark: BenchmarkFrozen, challenger: Artifact, rules: Rules) -> None:
    """Say what will keep this evaluation from promoting, before its alpha is spent."""
    if challenger.memory.without:
        ERR.print(f"left out, because it is quarantined: {', '.join(challenger.memory.without)}")
    if sealed_instances(benchmark) < rules.min_pairs:
        ERR.print(f"{benchmark.benchmark} can only void: {too_small(benchmark, rules)}", soft_wrap=True)
    views = house.views()
    present = known(views.get(CHAMPIONS, CHAMPION)).pointed()
    if is_saturated(benchmark.benchmark, views.find(VERDICTS).values(), present):
        ERR.print(f"{benchmark.benchmark} is saturated: the champion passed every sealed run of it", soft_wrap=True)


@app.command("list")
def list_(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List evaluations and their verdicts."""
    with opened() as house:
        views = house.views(read_position(house.store, as_of))
        rows = [_row(state) for state in views.find(VERDICTS).values()]
    columns = ("evaluation", "decision", "champion_name", "challenger_name", "benchmark", "opened_since")
    listing(rows, columns, as_json=as_json, empty="no evaluations yet; `flywheel run` opens one")


@app.command("explain")
def explain_(evaluation: Evaluation, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """Print a verdict with every number that decided it."""
    with opened() as house:
        state = _found(house, evaluation, as_of)
    _show(state, as_json=as_json)


@app.command()
def verify(evaluation: Evaluation, as_json: AsJson = False) -> None:
    """Judge again from the log and compare the verdict byte for byte."""
    with opened() as house:
        state = _found(house, evaluation)
        recorded = state.reached()
        if recorded is None:
            raise Unknown(
                what="verdict", actual=evaluation, way_out="It has not been reached; `flywheel run` goes on with it."
            )
        again = judged(house, evaluation)
    ours, theirs = again.model_dump_json(), recorded.model_dump_json()
    if ours != theirs:
        raise VerdictDiffers(evaluation=evaluation, actual=ours, expected=theirs)
    if as_json:
        emit_json({"evaluation": evaluation, "equal": True, "decision": again.decision})
    else:
        say(f"equal: {evaluation} recomputes to the same {len(ours)} bytes: {again.decision}")


def _found(house: House, evaluation: str, as_of: str | None = None) -> VerdictState:
    state = house.views(read_position(house.store, as_of)).get(VERDICTS, evaluation)
    if state is None:
        raise Unknown(what="evaluation", actual=evaluation, way_out="`flywheel gate list` names them.")
    return state


def _row(state: VerdictState) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(state)
    champion, challenger = state.artifacts()
    return {**row, "champion_name": str(champion), "challenger_name": str(challenger)}


def _show(state: VerdictState, *, as_json: bool) -> None:
    verdict = state.reached()
    if as_json:
        emit_json(_row(state))
    elif verdict is None:
        say(f"{state.evaluation} has no verdict yet; `flywheel run` goes on with it")
    else:
        facts(explained(verdict), title=state.evaluation)
