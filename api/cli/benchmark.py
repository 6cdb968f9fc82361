"""`flywheel benchmark`: the frozen tasks and seeds that the gate judges on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
import typer

from agents.envs.sandbox import PORT
from agents.envs.sites.first import FIRST
from eventlog.events import BenchmarkFrozen, Rules
from gate.benchmark import (
    ALPHA,
    CHALLENGERS,
    deal_seeds,
    freeze_benchmark,
    most_confirming_runs,
    most_runs,
    sealed_instances,
)
from gate.figures import count_noun, decimal
from gate.renewal import SeedAmounts, amounts_of, draw_fresh_seeds, seed_ranges
from gate.sizes import plan_size, power_at, seeds_of_each
from projections.engine.views import PostgresViews
from projections.runs import PLANLESS

from ..environments.admission import see_admission
from ..environments.connect import Where, placed_at
from ..environments.suites import find_checked_suite, suite_templates
from ..errors import Unknown
from ..evaluations.benchmarks import (
    benchmark_tasks,
    candidates,
    freeze_on,
    renew,
    size_in_words,
    unavailable_instances,
)
from ..evaluations.repeats import mark_repeated
from ..history.disown import refuse_forged
from ..house import House
from ..locks import only_controller
from ..queries.benchmarks import (
    BenchmarkAnswer,
    BenchmarkList,
    BenchmarkRow,
    find_benchmark,
    list_benchmarks,
    shortage,
    show_benchmark,
)
from ..sweeps.executors import Way
from .output import ERR, SHOWN, After, AsJson, AsOf, Limit, emit_json, none_of, open_project, print_rows, say, say_more
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, SuiteOf, Url
from .sources import Server, open_source, quote_name
from .sweep_options import How, dialect_from, micro, read_seeds

app = typer.Typer(help="Benchmarks: freeze, refresh, list, show.", no_args_is_help=True)

ACTOR = "operator"
_LOSSES = "where the platform loses 2, 5 or 10 % of the runs it finds .03, .05 or .13 less"
"""Measured by `make bench-gate` at a gain of .15 on 260 instances: docs/benchmarks/gate.md."""
RngSeed = Annotated[int, typer.Option("--seed", min=0, help="Draws the fresh seeds; the same number draws the same.")]


@app.command("freeze")
def freeze_(
    name: Annotated[str, typer.Argument(help="The benchmark's name.")],
    site: Annotated[str, typer.Option(help="The site of its tasks.")] = FIRST,
    *,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", help="Only this task; may be repeated. Default: all tasks that the site grades."),
    ] = None,
    visible_seeds: Annotated[
        str | None, typer.Option(metavar="A-B,C", help="Seeds that agents may see. Default: drawn.")
    ] = None,
    sealed_seeds: Annotated[
        str | None, typer.Option(metavar="A-B,C", help="Seeds that decide, which no agent sees. Default: drawn.")
    ] = None,
    visible: Annotated[int, typer.Option(min=0, max=1_000, help="Number of visible seeds to draw for each task.")] = 4,
    sealed: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Number of sealed seeds to draw for each task. Default: what --power asks for."
        ),
    ] = None,
    power: Annotated[float, typer.Option(min=0.01, max=0.99, help="Wanted probability to find --effect.")] = 0.8,
    effect: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Gain of the mean score that is to be found.")
    ] = 0.15,
    repeats: Annotated[
        int, typer.Option(min=1, max=100, help="Number of times that both arms play each instance.")
    ] = 1,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Probability of any false promotion.")] = ALPHA / 1_000_000,
    challengers: Annotated[
        int, typer.Option(min=1, max=1_000, help="Number of challengers that it may judge.")
    ] = CHALLENGERS,
    max_steps: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Maximum number of steps of a run. Default: as the suite says.")
    ] = None,
    from_candidates: Annotated[
        bool,
        typer.Option("--from-candidates", help="Only tasks with enough graded runs, whether passed or failed."),
    ] = False,
    min_runs: Annotated[int, typer.Option(min=1, help="With --from-candidates: number of runs that are enough.")] = 10,
    rng_seed: RngSeed = 7,
    executor: How = Way.PLAN,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    as_json: AsJson = False,
) -> None:
    """Freeze tasks with visible and sealed seeds on an admitted site, and the alpha that judging may spend.

    Nothing is frozen unless the site answers and each task can be played by the executor: with a plan, or by an agent.
    """
    where = Where(url, admin_url, sandbox, port, admin_port)
    with (
        open_project() as house,
        only_controller(house, site) as house,
        placed_at(house, site, where, dialect_from(dialect)) as placed,
    ):
        refuse_forged(house.views())
        see_admission(house, placed.environment, site, None)
        if from_candidates:
            task = _propose_tasks(house, site, task, min_runs)
        follows_plan = executor.value not in PLANLESS
        versioned = find_checked_suite(house, placed.environment, site, suite)
        found = suite_templates(house, placed.environment, site, versioned.suite, task, follows_plan=follows_plan)
        templates = mark_repeated(house, site, benchmark_tasks(found, max_steps))
        spent = micro([alpha])[0]
        wanted = _Wanted(micro([power])[0], micro([effect])[0], max(1, spent // challengers))
        each = sealed or wanted.seeds(len(templates), repeats)
        amounts = SeedAmounts(visible if visible_seeds is None else 0, each if sealed_seeds is None else 0, repeats)
        taken, among = unavailable_instances(house, house.views()), seed_ranges(versioned.suite.seeds)
        drawn = draw_fresh_seeds(name, site, templates, amounts, taken, rng_seed, among)
        given = [None if seeds is None else read_seeds(seeds) for seeds in (visible_seeds, sealed_seeds)]
        names = [template.template_id for template in templates]
        first, second = (
            fresh if seeds is None else deal_seeds(names, seeds) for seeds, fresh in zip(given, drawn, strict=True)
        )
        frozen = freeze_benchmark(name, site, templates, first, second, repeats, alpha=spent, challengers=challengers)
        freeze_on(house, frozen, ACTOR, versioned)
    _tell(frozen, as_json=as_json)
    if not as_json:
        say(wanted.words(frozen))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Power and effect that a benchmark is planned for, and the alpha of one challenger, in millionths."""

    power: int
    effect: int
    alpha: int

    def seeds(self, templates: int, repeats: int) -> int:
        """Seeds of each template that give the power. Raises BadParameter."""
        size = plan_size(self.effect, self.power, repeats, self.alpha)
        if size is None:
            asked = f"a power of {decimal(self.power)} at {decimal(self.effect)}"
            raise typer.BadParameter(
                f"{asked} takes more than 100,000 instances; expected a smaller power or a larger effect"
            )
        return seeds_of_each(size.instances, max(1, templates))

    def words(self, frozen: BenchmarkFrozen) -> str:
        """The difference that the benchmark can find, and the cost of an evaluation on it in runs."""
        found = power_at(sealed_instances(frozen), frozen.repeats, self.effect, self.alpha)
        gain = f"a gain of {decimal(self.effect)} is found with a power of about {round(found / 1_000_000, 2)}"
        again = most_confirming_runs(frozen, Rules.default())
        runs = (
            f"an evaluation takes at most {most_runs(frozen):,} runs, and to confirm what looks worse at most {again:,}"
        )
        return f"{gain}; {runs}; {_LOSSES}"


def _propose_tasks(house: House, site: str, asked: list[str] | None, least: int) -> list[str]:
    """The tasks of a site that have enough graded runs. Raises Unknown if there are none."""
    found = candidates(house, site, least)
    chosen = [task for task in found if asked is None or task in asked]
    if not chosen:
        way_out = "Play some with `flywheel rollout sweep`, or give a smaller --min-runs."
        what = f"task of {site} with {least} graded runs"
        raise Unknown(what=what, actual=", ".join(asked or ["any"]), way_out=way_out)
    for task in chosen:
        ERR.print(f"proposed: {task}, with {count_noun(found[task], 'graded run')}", soft_wrap=True)
    return chosen


@app.command()
def refresh(
    benchmark: Annotated[str, typer.Argument(help="The benchmark to succeed.")],
    *,
    sealed: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Number of sealed seeds for each task. Default: as many as before."),
    ] = None,
    rng_seed: RngSeed = 7,
    executor: How = Way.PLAN,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    as_json: AsJson = False,
) -> None:
    """Freeze a benchmark's successor: the same tasks, alpha and number of challengers, with fresh seeds.

    Nothing is frozen unless the site answers as it was admitted, and the executor can play each task.
    """
    where = Where(url, admin_url, sandbox, port, admin_port)
    with open_project() as house:
        found = find_benchmark(house.views(), benchmark).frozen_event()
        site, tasks = found.environment, [template.oracle_task_id for template in found.templates]
        amounts = None if sealed is None else replace(amounts_of(found), sealed=sealed)
        with only_controller(house, site) as own, placed_at(own, site, where, dialect_from(dialect)) as placed:
            refuse_forged(own.views())
            see_admission(own, placed.environment, site, None)
            tasks_of = find_checked_suite(own, placed.environment, site, suite).suite
            follows_plan = executor.value not in PLANLESS
            suite_templates(own, placed.environment, site, tasks_of, tasks, follows_plan=follows_plan)
            seeds = tasks_of.seeds
            frozen = renew(own, found, ACTOR, rng_seed=rng_seed, amounts=amounts, seeds=seeds)
    _tell(frozen, as_json=as_json)


def _tell(frozen: BenchmarkFrozen, *, as_json: bool) -> None:
    rules = Rules.default()
    if (why := shortage(frozen, rules)) is not None:
        ERR.print(f"{frozen.benchmark} can only void: {why}", soft_wrap=True)
    if as_json:
        emit_json(frozen.model_dump(mode="json"))
        return
    after = f", after {frozen.successor_of}" if frozen.successor_of else ""
    say(f"froze {frozen.benchmark} on {frozen.environment}{after}: {size_in_words(frozen)}")
    say(f"digest {frozen.digest}")


@app.command("list")
def list_(
    limit: Limit = SHOWN, after: After = None, as_of: AsOf = None, server: Server = None, as_json: AsJson = False
) -> None:
    """List benchmarks by name.

    The champion passes all of a saturated one; an exhausted one judges no more challengers.
    """

    def read_log(_house: House, views: PostgresViews) -> BenchmarkList:
        return list_benchmarks(views, after=after, limit=limit)

    with open_source(server, as_of) as source:
        rows, following = source.pages(BenchmarkList, "benchmarks", "/v1/benchmarks", read_log, after, limit)
    columns = ("benchmark", "environment", "sealed", "visible", "repeats", "standing", "digest")
    empty = none_of("benchmarks", "`flywheel run` freezes one", after)
    print_rows(msgspec.to_builtins(rows), columns, as_json=as_json, empty=empty)
    say_more(following)


@app.command()
def show(
    benchmark: Annotated[str, typer.Argument(help="The benchmark's name.")],
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show one benchmark's templates and instances, and whether it can still promote."""
    path = f"/v1/benchmarks/{quote_name(benchmark)}"
    with open_source(server, as_of) as source:
        row = source.read(BenchmarkAnswer, path, lambda _house, views: show_benchmark(views, benchmark)).benchmark
    if as_json:
        emit_json(row)
        return
    say(f"{row.benchmark} on {row.environment}, {row.repeats} repeats, digest {row.digest}\n{_standing_in_words(row)}")
    for template in row.templates:
        say(f"\n{template['template_id']}: {template['instruction']}")
        own = [task for task in row.tasks if task["template"] == template["template_id"]]
        for name in ("sealed", "visible"):
            seeds = [str(task["env_seed"]) for task in own if task["is_sealed"] is (name == "sealed")]
            say(f"  {name} seeds: {', '.join(seeds) or 'none'}")


def _standing_in_words(row: BenchmarkRow) -> str:
    refresh = f"`flywheel benchmark refresh {row.benchmark}` freezes its successor"
    if row.is_exhausted:
        return f"exhausted: all {row.challengers} challengers were judged; {refresh}"
    if row.is_saturated:
        return f"saturated: the champion passed every sealed run, so nobody can be promoted; {refresh}"
    return f"{row.standing} of {row.challengers}"
