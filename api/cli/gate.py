"""`flywheel gate`: judge a challenger, and explain or recompute verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from gate.figures import count_noun, decimal
from gate.inspections import pay_for_inspection
from projections.engine.views import PostgresViews
from projections.verdicts import VerdictState

from ..errors import VerdictDiffers, VerdictsDiffer
from ..evaluations.picture import picture
from ..evaluations.verify import Recomputed, recompute, recompute_all
from ..house import House
from ..queries.ledgers import Ledger, describe_total, list_ledgers, show_ledger
from ..queries.untold import may_tell
from ..queries.verdicts import find_verdict, page_verdicts
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

app = typer.Typer(help="The gate: run, list, ledger, explain, verify.", no_args_is_help=True)
Evaluation = Annotated[str, typer.Argument(help="The evaluation, such as eval-1.")]


app.command("run")(run_gate)


@app.command("list")
def list_(limit: Limit = SHOWN, after: After = None, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List evaluations by name, and their verdicts."""
    with open_project() as house:
        views = house.views_at(as_of)
        page, following = page_verdicts(views, after=after, limit=limit)
    columns = ("evaluation", "decision", "champion_name", "challenger_name", "benchmark", "opened_since")
    empty = none_of("evaluations", "`flywheel run` opens one", after)
    print_rows(msgspec.to_builtins(page), columns, as_json=as_json, empty=empty)
    say_more(following)


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

    While the benchmark can judge further challengers, only the decision is told, and nothing is drawn, unless you
    --spend.
    """
    with open_project() as house:
        views = house.views_at(as_of)
        state = find_verdict(views, evaluation)
        is_sealed = state.decision is not None and not may_tell(views, state.benchmark, evaluation)
        if spend and is_sealed:
            views = _spend(house, state)
        if plot is not None:
            picture(house, state, plot)
        print_verdict(views, state, as_json=as_json)
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


def _spend(house: House, state: VerdictState) -> PostgresViews:
    """The present views, after the look at an evaluation's sealed figures was paid for."""
    cost = pay_for_inspection(house.store, state.benchmark, state.evaluation, "operator")
    ERR.print(f"spent alpha {decimal(cost)} of {state.benchmark}: it judges one challenger fewer", soft_wrap=True)
    return house.views()
