"""`flywheel diff`: changes of state between two positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from eventlog.store import START
from gate.figures import count_noun, decimal, dollars
from projections.engine.views import PostgresViews
from projections.moves import (
    ChampionChange,
    ClusterMoved,
    Difference,
    PricesMoved,
    RewriteMoved,
    RunsPlayed,
    VerdictMoved,
)

from ..house import House
from ..positions import read_position
from ..queries.changes import describe_change
from ..queries.difference import DifferenceAnswer, show_difference
from .output import AsJson, emit_json, say
from .sources import Server, open_source

SHORT = 12


def diff(
    start: Annotated[str, typer.Option("--from", metavar="POSITION|TIME", help="The earlier position or time.")],
    end: Annotated[
        str | None, typer.Option("--to", metavar="POSITION|TIME", help="The later position or time. Default: the head.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List what changed between two positions of the log.

    Covers the champion, rewrites, runs, failures, verdicts and costs.
    """

    def read_log(house: House, views: PostgresViews) -> DifferenceAnswer:
        return show_difference(house.views(read_position(house.store, start) or START), views)

    with open_source(server, None if server is not None else end) as source:
        found = source.read(DifferenceAnswer, "/v1/diff", read_log, **{"from": start, "to": end}).diff
    if as_json:
        emit_json(found)
        return
    for line in describe_difference(found):
        say(line)


def describe_difference(found: Difference) -> Iterator[str]:
    """A difference as text lines, the champion first."""
    if found.before == found.after:
        yield f"Both are position {found.after}: nothing changed."
        return
    span = f"from position {found.before} to {found.after}"
    if found.is_empty:
        yield f"No state changed {span} ({count_noun(found.after - found.before, 'event')})."
        return
    yield f"What changed {span}:"
    sections = (
        ("champion", _champion(found.champion)),
        ("verdicts", [_verdict(item) for item in found.verdicts]),
        ("rewrites", [_rewrite(item) for item in found.rewrites]),
        ("runs", [_runs(item) for item in found.runs]),
        ("failures", [_cluster(item) for item in found.failures]),
        ("datasets", [f"{item.dataset[:SHORT]} frozen at {item.since}: {item.rows} rows" for item in found.datasets]),
        ("benchmarks", [f"{name} frozen" for name in found.benchmarks]),
        ("prices", _prices(found.prices)),
        ("costs", _costs(found)),
        ("tokens", [f"{item.token} {item.became}" for item in found.tokens]),
    )
    for name, lines in sections:
        if lines:
            yield f"\n{name}"
            yield from (f"  {line}" for line in lines)


def _champion(found: ChampionChange | None) -> list[str]:
    if found is None:
        return []
    moves = [
        f"since {move.since}: {move.champion}, by {move.by} ({move.actor}): {move.reason}"
        + (f" [{move.evaluation}]" if move.evaluation else "")
        for move in found.moves
    ]
    return [f"{found.before or 'none'} → {found.after or 'none'}", *moves]


def _verdict(found: VerdictMoved) -> str:
    arms = f"{found.evaluation}: challenger {found.challenger} against {found.champion} on {found.benchmark}"
    if found.decision is None:
        return f"{arms}, no verdict yet"
    if found.pairs is None:
        return f"{arms}: {found.decision}"
    delta = "" if found.mean_delta is None else f"mean difference {decimal(found.mean_delta)} "
    return f"{arms}: {found.decision}, {delta}over {count_noun(found.pairs, 'sealed instance')}"


def _rewrite(found: RewriteMoved) -> str:
    path = " → ".join([found.before or "new", *(f"{turn.status} at {turn.since}" for turn in found.turns)])
    does = describe_change(dict(found.change)) if found.change else "an unknown change"
    return f"{found.rewrite} ({does}): {path}; {count_noun(found.wins, 'win')}, {found.losses} lost"


def _runs(found: RunsPlayed) -> str:
    where = " in evaluations" if found.is_evaluation else ""
    if found.passed is None:
        missing = f", {found.missing} missing" if found.missing else ""
        played = f"{found.started} started, {found.ended} ended{missing}"
        return f"{found.template} on {found.environment}{where}: {played} (results are sealed)"
    rate = "none graded" if found.rate is None else f"{decimal(found.rate)} passed"
    before = "" if found.rate_before is None else f", {decimal(found.rate_before)} before"
    parts = [f"{found.started} started", f"{found.ended} ended", f"{found.passed} passed", f"{found.failed} failed"]
    parts += [f"{found.missing} missing"] if found.missing else []
    parts += [f"{found.regraded} graded again"] if found.regraded else []
    return f"{found.template} on {found.environment}{where}: {', '.join(parts)} ({rate}{before})"


def _cluster(found: ClusterMoved) -> str:
    name = f"{found.failure_class or 'unexplained'} of {found.template}"
    name += f" at “{found.step_intent}”" if found.step_intent else ""
    if found.before == 0:
        return f"appeared: {name}, {count_noun(found.after, 'run')}"
    if found.after == 0:
        return f"vanished: {name}, {count_noun(found.before, 'run')} before"
    return f"{'grew' if found.after > found.before else 'shrank'}: {name}, {found.before} → {found.after} runs"


def _prices(found: PricesMoved | None) -> list[str]:
    if found is None:
        return []
    was, is_ = ({} if book is None else msgspec.to_builtins(book) for book in (found.before, found.after))
    return [f"{name}: {was.get(name, 'unset')} → {value}" for name, value in is_.items() if was.get(name) != value]


def _costs(found: Difference) -> list[str]:
    if found.costs is None:
        return []
    aside = f", {found.costs.unknown} of unknown cost" if found.costs.unknown else ""
    if found.costs.spent is None:
        return [f"{count_noun(found.costs.runs, 'graded run')}; what they cost is sealed while the benchmark can judge"]
    return [f"{dollars(found.costs.spent)} spent on {count_noun(found.costs.runs, 'graded run')}{aside}"]
