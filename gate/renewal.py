"""Detects benchmarks that cannot promote any more, and builds their successors from fresh seeds. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from eventlog.events import Artifact, BenchmarkFrozen, BenchmarkTemplate, SuiteSeeds
from projections.alpha import AlphaState
from projections.benchmarks import BenchmarkState, Instance
from projections.verdicts import VerdictState

from .benchmark import deal_seeds, freeze_benchmark
from .errors import AlreadySucceeded, NoFreshSeeds

VISIBLE_SEEDS = range(9_000, 10_000)
SEALED_SEEDS = range(10_000, 1_000_000)
"""Range of sealed seeds. Training uses seeds below; from 10,000 on our sites show pages that training never sees."""

_NUMBERED = re.compile(r"(.*)-(\d+)")


@dataclass(frozen=True, slots=True)
class SeedRanges:
    """Seeds among which visible and sealed ones are drawn."""

    visible: range = VISIBLE_SEEDS
    sealed: range = SEALED_SEEDS


USUAL_RANGES = SeedRanges()


def seed_ranges(seeds: SuiteSeeds) -> SeedRanges:
    """Seeds that a benchmark of a suite may hold: the usual ones, or within other ranges that the suite names.

    Then sealed seeds are its sealed ones, and visible seeds the last tenth of its training seeds, at least one.
    """
    if seeds == SuiteSeeds():
        return USUAL_RANGES
    training = seeds.training.seeds
    return SeedRanges(visible=training[-max(1, len(training) // 10) :], sealed=seeds.sealed.seeds)


@dataclass(frozen=True, slots=True)
class SeedAmounts:
    """Numbers of seeds of each template, and repeats per seed."""

    visible: int
    sealed: int
    repeats: int


def is_saturated(benchmark: str, verdicts: Iterable[VerdictState], champion: Artifact | None) -> bool:
    """True if the champion passed every sealed run of a benchmark's last evaluation, so no challenger can be better.

    False if the arms could not be compared, or if the champion is neither of them.
    """
    decided = [state for state in verdicts if state.benchmark == benchmark and state.decision is not None]
    last = max(decided, key=lambda state: state.opened_since, default=None)
    verdict = None if last is None else last.verdict_reached()
    if verdict is None or verdict.decision == "void":
        return False
    own = (arm for arm in (verdict.champion, verdict.challenger) if arm.artifact == champion)
    return any(arm.runs and arm.passed == arm.runs for arm in own)


def describe_ledger(ledger: AlphaState | None, *, saturated: bool) -> str:
    """Describe a benchmark: exhausted, saturated, or the number of challengers it can still judge."""
    if ledger is None or ledger.is_exhausted:
        return "exhausted"
    return "saturated" if saturated else f"{ledger.challengers_left} challengers left"


def newest_successor(benchmarks: Mapping[str, BenchmarkState], name: str) -> str:
    """The last successor of a benchmark, or the benchmark itself if it has none."""
    after = {state.successor_of: key for key, state in benchmarks.items() if state.successor_of is not None}
    while name in after:
        name = after[name]
    return name


def missing_tasks(benchmark: BenchmarkFrozen, tasks: Iterable[str]) -> tuple[str, ...]:
    """Names of the oracle tasks that the benchmark does not contain."""
    return tuple(sorted({*tasks} - {template.oracle_task_id for template in benchmark.templates}))


def successor_name(benchmarks: Collection[str], name: str) -> str:
    """Name of a successor: the benchmark's name with the next free number."""
    numbered = _NUMBERED.fullmatch(name)
    stem, first = (numbered[1], int(numbered[2]) + 1) if numbered else (name, 2)
    return next(f"{stem}-{number}" for number in count(first) if f"{stem}-{number}" not in benchmarks)


def draw_fresh_seeds(
    benchmark: str,
    environment: str,
    templates: Sequence[BenchmarkTemplate],
    amounts: SeedAmounts,
    taken: Collection[Instance],
    rng_seed: int,
    among: SeedRanges = USUAL_RANGES,
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Draw visible and sealed seeds for each template, at which none was played or frozen, from a frozen stream.

    They lie in the ranges of `among`. No two templates share a seed, because a seed may move all of them alike. Raises
    NoFreshSeeds.
    """
    tasks = [template.oracle_task_id for template in templates]
    known, asked = frozenset(tasks), environment
    used = {seed for environment, task, seed in taken if environment == asked and task in known}
    names, found = [template.template_id for template in templates], []
    for what, span, amount in (
        ("visible", among.visible, amounts.visible * len(names)),
        ("sealed", among.sealed, amounts.sealed * len(names)),
    ):
        if len(span) - sum(seed in span for seed in used) < amount:
            raise NoFreshSeeds(benchmark=benchmark, what=what, expected=amount, among=f"{span[0]} to {span[-1]}")
        found.append(deal_seeds(names, _draw_seeds(f"{rng_seed}/{benchmark}/{what}", span, amount, used)))
    return found[0], found[1]


def _draw_seeds(stream: str, among: range, amount: int, used: Collection[int]) -> tuple[int, ...]:
    """Distinct seeds as they are drawn. The draw is written out because `Random.sample` may change between Pythons."""
    bits = Random(stream).getrandbits  # noqa: S311 - a frozen stream, not a secret
    width = len(among).bit_length()
    found: dict[int, None] = {}
    while len(found) < amount:
        index = bits(width)
        if index < len(among) and among[index] not in used:
            found[among[index]] = None
    return tuple(found)


def successor(
    benchmark: BenchmarkFrozen,
    benchmarks: Mapping[str, BenchmarkState],
    taken: Collection[Instance],
    *,
    rng_seed: int,
    amounts: SeedAmounts | None = None,
    templates: Sequence[BenchmarkTemplate] | None = None,
    among: SeedRanges = USUAL_RANGES,
) -> BenchmarkFrozen:
    """Build a successor with the same templates, alpha and challengers at fresh seeds; `amounts` overrides the size.

    `templates` replaces the templates; the successor has its own alpha either way. Raises AlreadySucceeded,
    NoFreshSeeds.
    """
    name = benchmark.benchmark
    if newest_successor(benchmarks, name) != name:
        raise AlreadySucceeded(benchmark=name, actual=newest_successor(benchmarks, name))
    fresh = successor_name(benchmarks.keys(), name)
    wanted = amounts or amounts_of(benchmark)
    judged = benchmark.templates if templates is None else templates
    visible, sealed = draw_fresh_seeds(fresh, benchmark.environment, judged, wanted, taken, rng_seed, among)
    return freeze_benchmark(
        fresh,
        benchmark.environment,
        judged,
        visible,
        sealed,
        wanted.repeats,
        alpha=benchmark.alpha,
        challengers=benchmark.challengers,
        successor_of=name,
    )


def amounts_of(benchmark: BenchmarkFrozen) -> SeedAmounts:
    """As many seeds of each template as the template with the most has."""
    counts = Counter((task.template, task.is_sealed) for task in benchmark.tasks)
    visible, sealed = (
        max((count for (_, found), count in counts.items() if found is is_sealed), default=0)
        for is_sealed in (False, True)
    )
    return SeedAmounts(visible=visible, sealed=sealed, repeats=benchmark.repeats)
