"""`flywheel gate`: judge a challenger, and explain or recompute verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from eventlog.events import BenchmarkFrozen
from gate.figures import count_noun, decimal
from gate.inspections import pay_for_inspection

from ..errors import VerdictDiffers, VerdictsDiffer
from ..evaluations.picture import picture
from ..evaluations.verify import Recomputed, recompute, recompute_all
from ..queries.benchmarks import BenchmarkList, find_benchmark
from ..queries.ledgers import Ledger, LedgerAnswer, describe_total, list_ledgers, show_ledger
from ..queries.untold import may_tell
from ..queries.verdicts import (
    VerdictAnswer,
    VerdictList,
    find_verdict,
    list_verdicts,
    row_of_told,
    show_verdict,
)
from .gate_run import print_verdict, run_gate
from .output import (
    ERR,
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    emit_json,
    none_of,
    open_project,
    print_rows,
    say,
    say_more,
    table,
)
from .sources import LogSource, Server, Source, open_source, quote_name, refuse_options

app = typer.Typer(help="The gate: run, list, ledger, explain, verify.", no_args_is_help=True)
Evaluation = Annotated[str, typer.Argument(help="The evaluation, such as eval-1.")]


app.command("run")(run_gate)


@app.command("list")
def list_(
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List evaluations by name, and their verdicts."""
    with open_source(server, as_of) as source:
        found, following = source.pages(
            VerdictList,
            "verdicts",
            "/v1/verdicts",
            lambda _house, views: list_verdicts(views, after=after, limit=limit),
            after,
            limit,
        )
    page = tuple(map(row_of_told, found))
    columns = ("evaluation", "decision", "champion_name", "challenger_name", "benchmark", "opened_since")
    empty = none_of("evaluations", "`flywheel run` opens one", after)
    print_rows(msgspec.to_builtins(page), columns, as_json=as_json, empty=empty)
    say_more(following)


@app.command("ledger")
def ledger_(
    benchmark: Annotated[str | None, typer.Option(help="One benchmark. Default: all of them.")] = None,
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the alpha of each benchmark, the evaluations that spent it, and what is left.

    Of a server you name one, because the bound over all of them is one of its settings.
    """
    if server is not None and benchmark is None:
        raise typer.BadParameter("--server without --benchmark: expected the benchmark whose ledger to show")
    found: tuple[Ledger, ...] = ()
    following, total = None, ""
    with open_source(server, as_of) as source:
        if benchmark is not None:
            found = (_ledger_of(source, benchmark),)
        elif isinstance(source, LogSource):
            found, following = list_ledgers(source.views, after=after, limit=limit)
            total = describe_total(source.views, source.house.settings.alpha_cap)
    if as_json:
        emit_json(found)
    else:
        for each in found:
            _show_ledger(each)
        if benchmark is None:
            say(total if found else none_of("benchmark", "`flywheel run` freezes one", after))
    say_more(following)


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
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Print a verdict with the numbers that decided it, and optionally draw it.

    While the benchmark can judge further challengers, only the decision is told, and nothing is drawn, unless you
    --spend.
    """
    refuse_options(server, {"--plot": plot, "--spend": spend}, "both work on the log itself")
    with open_source(server, as_of) as source:
        if isinstance(source, LogSource):
            _spend_and_draw(source, evaluation, plot, spend=spend)
        path = f"/v1/verdicts/{quote_name(evaluation)}"
        told = source.read(VerdictAnswer, path, lambda _house, views: show_verdict(views, evaluation)).verdict
        print_verdict(row_of_told(told), lambda name: _frozen_event(source, name), as_json=as_json)
    if plot is not None and not as_json:
        say(f"drawn: {plot}")


@app.command()
def verify(
    evaluation: Annotated[str | None, typer.Argument(help="The evaluation, such as eval-1.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All verdicts in the log.")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge again from the log and compare the verdicts byte for byte. Exit code 1 if one differs.

    A verdict depends on events alone, so it can be recomputed after an erasure too. Where one differs, both are shown:
    while the benchmark can judge, without their sealed figures.
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
        raise VerdictDiffers(evaluation=each.evaluation, actual=each.told[1], expected=each.told[0])


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


def _spend_and_draw(source: LogSource, evaluation: str, plot: Path | None, *, spend: bool) -> None:
    """Pay for the look at an evaluation's sealed figures where that is asked for and needed, and draw it."""
    state = find_verdict(source.views, evaluation)
    if spend and state.decision is not None and not may_tell(source.views, state.benchmark, evaluation):
        cost = pay_for_inspection(source.house.store, state.benchmark, evaluation, "operator")
        ERR.print(f"spent alpha {decimal(cost)} of {state.benchmark}: it judges one challenger fewer", soft_wrap=True)
        source.renew()
    if plot is not None:
        picture(source.house, state, plot)


def _ledger_of(source: Source, benchmark: str) -> Ledger:
    """The ledger of one benchmark. Raises Unknown."""
    path = f"/v1/benchmarks/{quote_name(benchmark)}/ledger"
    return source.read(LedgerAnswer, path, lambda _house, views: show_ledger(views, benchmark)).ledger


def _frozen_event(source: Source, benchmark: str) -> BenchmarkFrozen:
    """A benchmark as it was frozen. Raises Unknown."""
    if isinstance(source, LogSource):
        return find_benchmark(source.views, benchmark).frozen_event()
    every, _ = source.pages(BenchmarkList, "benchmarks", "/v1/benchmarks", None, None, None)
    frozen: BenchmarkFrozen = next(state for state in every if state.benchmark == benchmark).frozen_event()
    return frozen
