"""`flywheel dataset`: training rows that a query selects from the log up to a position."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from eventlog.events import Query
from projections.engine.views import Views

from ..datasets import freeze
from ..datasets.card import card_of
from ..datasets.demonstrations import keep_tokens, tokens_of
from ..datasets.freeze import DatasetSummary
from ..datasets.judged import calibration_of, describe_calibration
from ..datasets.multi_call import RunsOfRows
from ..house import House
from ..queries.datasets import Frozen, find_dataset, find_frozen, find_slice, frozen_row
from . import dataset_options as options
from .dataset_options import DatasetKind, query_from_options
from .in_words import dataset_facts, refusals_in_words
from .output import (
    ERR,
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    emit_json,
    erased_as_json,
    none_of,
    open_project,
    print_facts,
    print_rows,
    say,
    say_more,
    spinner,
)
from .row_files import refuse_file, write_rows, write_whole
from .served_datasets import find_in_source, page_of_source, save_card, save_rows
from .sources import Server, open_source

app = typer.Typer(help="Datasets: build, slice, list, show, export, verify, card.", no_args_is_help=True)
Named = Annotated[
    str, typer.Argument(help="The dataset's digest, or at least its first eight characters; or the group of a slice.")
]
File = Annotated[Path | None, typer.Option(help="Also write the rows to this file: .parquet or .ndjson.")]
_WRITTEN = (".parquet", ".ndjson")


@app.command()
def build(
    kind: options.KindOf = DatasetKind.SFT,
    *,
    min_score: options.MinScore = None,
    best_of_group: options.BestOfGroup = None,
    runs: options.RunsOf = None,
    base: options.BaseOf = None,
    reward: options.RewardOf = None,
    min_reward: options.MinReward = None,
    margin: options.Margin = None,
    max_pairs: options.MaxPairs = None,
    ddof: options.Ddof = None,
    eps: options.Eps = None,
    scale: options.Scale = None,
    environment: options.Environment = None,
    sweep: options.Sweep = None,
    judged_by: options.JudgedBy = None,
    outside: options.OutsideOf = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be frozen, with its runs of agents outside; freeze nothing."),
    ] = False,
    file: File = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Freeze a dataset for sft, dpo or grpo from the runs in the log. Benchmark runs are never included.

    With --judged-by a judge selects, of runs that no oracle graded; its agreement with the oracle on graded runs of the
    same environment is printed, and without it nothing is frozen.
    """
    options.refuse_untokenised(runs, base)
    query = query_from_options(
        kind,
        tokens=base and tokens_of(base),
        min_score=min_score,
        best_of_group=best_of_group,
        runs=runs,
        reward=reward,
        min_reward=min_reward,
        margin=margin,
        max_pairs=max_pairs,
        ddof=ddof,
        eps=eps,
        scale=scale,
        environment=environment,
        sweep=sweep,
        judged_by=judged_by,
        outside=outside,
    )
    if dry_run and file is not None:
        raise typer.BadParameter("--dry-run and --file: expected one of them")
    with open_project() as house:
        judged = calibration_of(house.store, house.views_at(as_of), query)
        if judged is not None:
            ERR.print(describe_calibration(judged), soft_wrap=True)
        if dry_run:
            _show_dry_run(house, house.views_at(as_of), query, base, as_json=as_json)
            return
        made = _make_dataset(house, house.views_at(as_of), query, file, base)
        digest = freeze.freeze_dataset(house.store, made, "operator")
        found = find_dataset(house.views(), digest)
    _show(found, as_json=as_json)


@app.command("slice")
def slice_(
    kind: options.KindOf = DatasetKind.GRPO,
    *,
    group: Annotated[str, typer.Option(help="The group whose rows to register.")],
    reward: options.RewardOf = None,
    min_score: options.MinScore = None,
    runs: options.RunsOf = None,
    base: options.BaseOf = None,
    margin: options.Margin = None,
    max_pairs: options.MaxPairs = None,
    ddof: options.Ddof = None,
    eps: options.Eps = None,
    scale: options.Scale = None,
    file: File = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Register the rows of one group, so that they can be pulled as one shard by the group's name."""
    options.refuse_untokenised(runs, base)
    query = query_from_options(
        kind,
        tokens=base and tokens_of(base),
        reward=reward,
        min_score=min_score,
        runs=runs,
        margin=margin,
        max_pairs=max_pairs,
        ddof=ddof,
        eps=eps,
        scale=scale,
        group=group,
    )
    with open_project() as house:
        views = house.views_at(as_of)
        freeze.refuse_unknown_group(views, group)
        freeze.register(house.store, _make_dataset(house, views, query, file, base), "operator")
        found = find_slice(house.views(), group)
    _show(found, as_json=as_json)


@app.command("list")
def list_(
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List datasets by digest, then slices by group."""
    with open_source(server, as_of) as source:
        found, following = page_of_source(source, after, limit)
    rows = [msgspec.to_builtins(frozen_row(state)) for state in found]
    columns = ("dataset", "kind", "rows", "groups", "group", "upto")
    empty = none_of("datasets", "`flywheel dataset build` freezes one", after)
    print_rows(rows, columns, as_json=as_json, empty=empty)
    say_more(following)


@app.command()
def show(dataset: Named, as_of: AsOf = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show one dataset: its query, position and size, and how many runs were refused for which reason."""
    with open_source(server, as_of) as source:
        found = find_in_source(source, dataset)
    _show(found, as_json=as_json)


@app.command()
def export(
    dataset: Named,
    file: Annotated[Path, typer.Argument(help="Where to write: .parquet, .ndjson or .arrow.")],
    server: Server = None,
) -> None:
    """Write a dataset's rows to a file."""
    refuse_file(file, (*_WRITTEN, ".arrow"))
    if server is not None:
        with spinner("fetching the rows"):
            rows = save_rows(server, dataset, file)
        say(f"{rows} rows are in {file}")
        return
    with open_project() as house, spinner("making the rows"):
        frozen = find_frozen(house.views(), dataset)
        made = write_whole(file, lambda part: freeze.again(frozen, lambda: write_rows(house, frozen, part)))
    say(f"{made.height} rows are in {file}")


@app.command()
def verify(dataset: Named, as_json: AsJson = False) -> None:
    """Make the dataset's rows again from the log and compare digests: equal, different or erased.

    Erased means that rows need bytes whose subject was erased. Only equal exits with code 0.
    """
    with open_project() as house, spinner("making the rows"), erased_as_json({"dataset": dataset}, as_json=as_json):
        frozen = find_frozen(house.views(), dataset)
        views = house.views_at(str(frozen.upto))
        made = freeze.again(frozen, lambda: freeze.make_rows(house.store, house.blobs, views, frozen.parse_query()))
    if as_json:
        same = {"dataset": made.digest, "outcome": "equal", "equal": True}
        emit_json({**same, "rows": made.height, "upto": made.upto})
    else:
        say(f"equal: {made.height} rows from positions up to {made.upto} give {made.digest}")


@app.command()
def card(
    dataset: Named,
    file: Annotated[Path | None, typer.Option(help="Write the card to this file instead.")] = None,
    server: Server = None,
) -> None:
    """Print a dataset's card in Markdown: its content, what was refused, its columns, and its origin.

    A server has no cards of slices.
    """
    if server is None:
        with open_project() as house, spinner("making the rows"):
            text = card_of(house.store, house.blobs, house.views, find_frozen(house.views(), dataset))
    else:
        text = save_card(server, dataset)
    if file is None:
        typer.echo(text, nl=False)
    else:
        file.write_text(text, encoding="utf-8")
        say(f"the card is in {file}")


def _make_dataset(house: House, views: Views, query: Query, file: Path | None, base: Path | None) -> DatasetSummary:
    """The dataset that a query makes; with a file, its rows are written there. Raises EmptyDataset.

    If rows are tokenised with a base model, its tokenizer is kept. Says how many runs are split.
    """
    seen = RunsOfRows()
    if file is not None:
        refuse_file(file, _WRITTEN)
    if base is not None:
        keep_tokens(house.blobs, base)
    with spinner("making the rows"):
        if file is None:
            made = freeze.refuse_empty(freeze.make_rows(house.store, house.blobs, views, query, seen.take))
        else:
            write = partial(freeze.write_dataset, house.store, house.blobs, views, query, each=seen.take)
            made = write_whole(file, lambda unfinished: freeze.refuse_empty(write(unfinished)))
    _say_split(seen)
    return made


def _say_split(seen: RunsOfRows) -> None:
    if (said := seen.sentence()) is not None:
        ERR.print(said, soft_wrap=True)


def _show_dry_run(house: House, views: Views, query: Query, base: Path | None, *, as_json: bool) -> None:
    """What a query makes now, and which of its runs are of agents outside."""
    seen = RunsOfRows()
    if base is not None:
        keep_tokens(house.blobs, base)
    with spinner("making the rows"):
        made = freeze.make_rows(house.store, house.blobs, views, query, seen.take)
    outside = sorted(seen.outside, key=str.encode)
    if as_json:
        refused = {item.reason: item.runs for item in made.refused}
        emit_json(
            {"dataset": made.digest, "rows": made.height, "groups": made.groups, "refused": refused}
            | {"outside": outside}
        )
        return
    _say_split(seen)
    print_facts(
        [
            ("rows", made.height),
            ("groups", made.groups),
            ("left out", refusals_in_words({item.reason: item.runs for item in made.refused})),
            ("of agents outside", ", ".join(outside) or "none"),
        ],
        title="Nothing was frozen. The rows would be:",
    )


def _show(state: Frozen, *, as_json: bool) -> None:
    emit_json(frozen_row(state)) if as_json else print_facts(dataset_facts(state))
