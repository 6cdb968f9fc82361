"""When a benchmark cannot promote any more, and the seeds of the one that takes its place. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from eventlog.events import Artifact, BenchmarkFrozen, BenchmarkTemplate
from projections.alpha import AlphaState
from projections.benchmarks import BenchmarkState, Instance
from projections.verdicts import VerdictState

from .benchmark import freeze_benchmark
from .errors import AlreadySucceeded, NoFreshSeeds

VISIBLE_SEEDS = range(9_000, 10_000)
SEALED_SEEDS = range(10_000, 1_000_000)
"""Where seeds are drawn: training takes those below. From 10,000 on our sites show pages that training never sees."""

_NUMBERED = re.compile(r"(.*)-(\d+)")


@dataclass(frozen=True, slots=True)
class Amounts:
    """How many seeds a template gets, and how often each is played."""

    visible: int
    sealed: int
    repeats: int


def is_saturated(benchmark: str, verdicts: Iterable[VerdictState], champion: Artifact | None) -> bool:
    """Whether the champion passed every sealed run of the last evaluation of a benchmark: nothing can be better.

    Nobody knows that where the arms could not be compared, or where the champion is none of the two.
    """
    decided = [state for state in verdicts if state.benchmark == benchmark and state.decision is not None]
    last = max(decided, key=lambda state: state.opened_since, default=None)
    verdict = None if last is None else last.verdict_reached()
    if verdict is None or verdict.decision == "void":
        return False
    own = (arm for arm in (verdict.champion, verdict.challenger) if arm.artifact == champion)
    return any(arm.runs and arm.passed == arm.runs for arm in own)


def describe_ledger(ledger: AlphaState | None, *, saturated: bool) -> str:
    """What is to be said of a benchmark: exhausted, saturated, or how many challengers it can still judge."""
    if ledger is None or ledger.is_exhausted:
        return "exhausted"
    return "saturated" if saturated else f"{ledger.challengers - ledger.challenges} challengers left"


def newest_successor(benchmarks: Mapping[str, BenchmarkState], name: str) -> str:
    """The benchmark that stands in the place of one: the last of its successors, or itself."""
    after = {state.successor_of: key for key, state in benchmarks.items() if state.successor_of is not None}
    while name in after:
        name = after[name]
    return name


def missing_tasks(benchmark: BenchmarkFrozen, tasks: Iterable[str]) -> tuple[str, ...]:
    """Of these oracle tasks those that a benchmark does not hold, by name."""
    return tuple(sorted({*tasks} - {template.oracle_task_id for template in benchmark.templates}))


def successor_name(benchmarks: Collection[str], name: str) -> str:
    """The name of a successor: the same with the next number that is not taken."""
    numbered = _NUMBERED.fullmatch(name)
    stem, first = (numbered[1], int(numbered[2]) + 1) if numbered else (name, 2)
    return next(f"{stem}-{number}" for number in count(first) if f"{stem}-{number}" not in benchmarks)


def draw_fresh_seeds(
    benchmark: str,
    environment: str,
    templates: Sequence[BenchmarkTemplate],
    amounts: Amounts,
    taken: Collection[Instance],
    rng_seed: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Visible and sealed seeds at which no template was ever played or frozen, from a frozen stream.

    Raises NoFreshSeeds.
    """
    tasks = [template.oracle_task_id for template in templates]
    known, asked = frozenset(tasks), environment
    used = {seed for environment, task, seed in taken if environment == asked and task in known}
    found = []
    for what, among, amount in (
        ("visible", VISIBLE_SEEDS, amounts.visible),
        ("sealed", SEALED_SEEDS, amounts.sealed),
    ):
        if len(among) - len(used & {*among}) < amount:
            raise NoFreshSeeds(benchmark=benchmark, what=what, expected=amount, among=f"{among[0]} to {among[-1]}")
        found.append(_draw_seeds(f"{rng_seed}/{benchmark}/{what}", among, amount, used))
    return found[0], found[1]


def _draw_seeds(stream: str, among: range, amount: int, used: Collection[int]) -> tuple[int, ...]:
    """Distinct seeds in order. The stream is spelled out: `Random.sample` may change between Python versions."""
    bits = Random(stream).getrandbits  # noqa: S311 - a frozen stream, not a secret
    width = len(among).bit_length()
    found: set[int] = set()
    while len(found) < amount:
        index = bits(width)
        if index < len(among) and among[index] not in used:
            found.add(among[index])
    return tuple(sorted(found))


def successor(
    benchmark: BenchmarkFrozen,
    benchmarks: Mapping[str, BenchmarkState],
    taken: Collection[Instance],
    *,
    rng_seed: int,
    amounts: Amounts | None = None,
    templates: Sequence[BenchmarkTemplate] | None = None,
) -> BenchmarkFrozen:
    """The same templates at fresh seeds, with the same alpha for as many challengers; as large, if not said otherwise.

    With other `templates` it is these that are judged from then on, by an alpha of their own as ever.
    Raises AlreadySucceeded, NoFreshSeeds.
    """
    name = benchmark.benchmark
    if newest_successor(benchmarks, name) != name:
        raise AlreadySucceeded(benchmark=name, actual=newest_successor(benchmarks, name))
    fresh = successor_name(benchmarks.keys(), name)
    wanted = amounts or _amounts(benchmark)
    judged = benchmark.templates if templates is None else templates
    visible, sealed = draw_fresh_seeds(fresh, benchmark.environment, judged, wanted, taken, rng_seed)
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


def _amounts(benchmark: BenchmarkFrozen) -> Amounts:
    sealed = {task.env_seed for task in benchmark.tasks if task.is_sealed}
    visible = {task.env_seed for task in benchmark.tasks if not task.is_sealed}
    return Amounts(visible=len(visible), sealed=len(sealed), repeats=benchmark.repeats)
