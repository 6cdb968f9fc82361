"""Benchmarks: all of them, the one of a site that is in force, what it lacks, and the seeds it holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec.structs import asdict

from eventlog.events import BenchmarkFrozen, Rules
from gate.benchmark import sealed_instances
from gate.errors import TooFewUnits
from gate.renewal import describe_ledger, is_saturated, newest_successor
from gate.units import count_sealed_units
from projections.alpha import ALPHA, AlphaState
from projections.benchmarks import BENCHMARKS, BenchmarkState, benchmark_instances
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.views import Views
from projections.evaluations import EVALUATIONS, EvaluationEntry
from projections.verdicts import VERDICTS

from .facts import find_state, require
from .paging import page_after

WAY_OUT = "List them with `flywheel benchmark list` or GET /v1/benchmarks."


class BenchmarkRow(BenchmarkState, frozen=True, kw_only=True):
    """A benchmark with its size, and whether it can still promote: `standing` says so in words.

    Both tell of the sealed part only whether the champion passed all of it, by which no challenger can be chosen.
    """

    sealed: int
    visible: int
    is_saturated: bool
    is_exhausted: bool
    standing: str


class BenchmarkList(msgspec.Struct, frozen=True):
    """Benchmarks with their standing, in order of name; `next` is the name to continue after, or null."""

    benchmarks: tuple[BenchmarkRow, ...]
    next: str | None = None


class BenchmarkAnswer(msgspec.Struct, frozen=True):
    """One benchmark with its standing."""

    benchmark: BenchmarkRow


def list_benchmarks(views: Views, *, after: str | None = None, limit: int | None = None) -> BenchmarkList:
    """The first `limit` benchmarks whose names sort after `after` (None: all)."""
    page, following = page_after(views, BENCHMARKS, after, limit)
    return BenchmarkList(_benchmark_rows(views, tuple(page.values())), following)


def show_benchmark(views: Views, name: str) -> BenchmarkAnswer:
    """One benchmark, by its name. Raises Unknown."""
    return BenchmarkAnswer(_benchmark_rows(views, (find_benchmark(views, name),))[0])


def pick_benchmarks(views: Views, names: Collection[str]) -> dict[str, BenchmarkState]:
    """The benchmarks of these names that were frozen, by name."""
    return views.pick(BENCHMARKS, names)


def find_benchmark(views: Views, name: str) -> BenchmarkState:
    """A benchmark by its name. Raises Unknown."""
    return find_state(views, BENCHMARKS, name, what="benchmark", way_out=WAY_OUT)


def _benchmark_rows(views: Views, states: Sequence[BenchmarkState]) -> tuple[BenchmarkRow, ...]:
    """Benchmarks with their standing. Reads their own ledgers and last verdicts, at once, and no others."""
    ledgers = views.pick(ALPHA, [state.benchmark for state in states])
    saturated = _find_saturated(views, {state.benchmark: state.digest for state in states})
    return tuple(
        _row(state, ledgers.get(state.benchmark), is_saturated=state.benchmark in saturated) for state in states
    )


def _row(state: BenchmarkState, ledger: AlphaState | None, *, is_saturated: bool) -> BenchmarkRow:
    sealed = sum(task["is_sealed"] for task in state.tasks)
    return BenchmarkRow(
        **asdict(state),
        sealed=sealed,
        visible=len(state.tasks) - sealed,
        is_saturated=is_saturated,
        is_exhausted=ledger is None or ledger.is_exhausted,
        standing=describe_ledger(ledger, saturated=is_saturated),
    )


def is_saturated_now(views: Views, benchmark: BenchmarkState | BenchmarkFrozen) -> bool:
    """True if the present champion passed every sealed run of a benchmark's last evaluation."""
    return bool(_find_saturated(views, {benchmark.benchmark: benchmark.digest}))


def _find_saturated(views: Views, digests: Mapping[str, str]) -> frozenset[str]:
    """The benchmarks among these that the present champion saturates; their digests are given by name."""
    champion = views.get(CHAMPIONS, CHAMPION)
    present = None if champion is None else champion.pointed_artifact()
    opened = views.pick(EVALUATIONS, set(digests.values()))
    last: dict[str, str] = {}
    for name, digest in digests.items():
        entries = opened[digest].evaluations if digest in opened else ()
        decided = [each for each in entries if each.benchmark == name and not each.is_open]
        if decided:
            last[name] = max(decided, key=lambda each: each.opened_since).evaluation
    verdicts = views.pick(VERDICTS, last.values())
    found = ((name, verdicts.get(evaluation)) for name, evaluation in last.items())
    return frozenset(name for name, state in found if state is not None and is_saturated(name, (state,), present))


def evaluations_of(views: Views, site: str) -> tuple[EvaluationEntry, ...]:
    """The evaluations on the benchmarks of a site, in order of opening."""
    own = {key: state.digest for key, state in views.find(BENCHMARKS).items() if state.environment == site}
    found = views.pick(EVALUATIONS, {*own.values()}).values()
    entries = (each for state in found for each in state.evaluations if each.benchmark in own)
    return tuple(sorted(entries, key=lambda each: each.opened_since))


def first_benchmark_name(site: str) -> str:
    """The first benchmark that the controller judges a site's challengers on."""
    return f"{site}-1"


def present_benchmark(views: Views, site: str) -> BenchmarkFrozen:
    """The benchmark that challengers are judged on now: the first one of the site, or its newest successor.

    Raises FactMissing.
    """
    benchmarks = views.find(BENCHMARKS)
    return require(benchmarks.get(newest_successor(benchmarks, first_benchmark_name(site)))).frozen_event()


def shortage(benchmark: BenchmarkFrozen, rules: Rules) -> str | None:
    """Why a benchmark can only void under these rules; None if it can decide."""
    units, instances = count_sealed_units(benchmark, rules), sealed_instances(benchmark)
    if units >= rules.min_pairs:
        return None
    shared = f" that share {units} seeds, which are the units" if units < instances else ""
    return f"{instances} sealed instances{shared}, and the rules ask for {rules.min_pairs}"


def refuse_small_benchmark(benchmark: BenchmarkFrozen, rules: Rules) -> None:
    """Raise TooFewUnits if a benchmark can only void under these rules."""
    if (why := shortage(benchmark, rules)) is not None:
        raise TooFewUnits(benchmark=benchmark.benchmark, actual=why)


def why_renew(views: Views, benchmark: BenchmarkFrozen, rules: Rules) -> str | None:
    """Why a benchmark needs a successor before another challenger can be judged; None if it needs none."""
    if require(views.get(ALPHA, benchmark.benchmark)).is_exhausted:
        return f"{benchmark.benchmark} is exhausted: it has judged all its challengers"
    why = shortage(benchmark, rules)
    return None if why is None else f"{benchmark.benchmark} is too small: {why}"


def benchmark_seeds(views: Views, site: str) -> frozenset[int]:
    """The seeds at which a benchmark of a site holds any task: a sweep has the same seeds for all of its tasks."""
    instances = benchmark_instances(views.find(BENCHMARKS).values())
    return frozenset(seed for environment, _task, seed in instances if environment == site)
