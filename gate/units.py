"""Independent units of a benchmark: its sealed instances, or its seeds where templates share them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from random import Random
from typing import TypeVar

from eventlog.events import BenchmarkFrozen, BenchmarkTask, Rules

from .arms import PairedInstance
from .strata import Strata

Tasks = tuple[BenchmarkTask, ...]
_Drawn = TypeVar("_Drawn")


def unit_key(task: BenchmarkTask | PairedInstance, rules: Rules) -> tuple[str, int]:
    """Unit of an instance."""
    return ("" if rules.unit == "seed" else task.template), task.env_seed


def shares_seeds(benchmark: BenchmarkFrozen) -> bool:
    """True if two sealed instances have the same seed: a seed may move all templates alike."""
    seeds = [task.env_seed for task in benchmark.tasks if task.is_sealed]
    return len(set(seeds)) < len(seeds)


def takes_seeds(benchmark: BenchmarkFrozen, rules: Rules) -> bool:
    """True if the unit of these rules is not the instance on this benchmark."""
    return rules.unit == "seed" and shares_seeds(benchmark)


def order_units(benchmark: BenchmarkFrozen, rules: Rules) -> tuple[Tasks, ...]:
    """Units of sealed instances in the order they are played and tested, from the frozen stream of `rules.rng_seed`.

    Units of one instance are ordered in rounds of one instance of each template, so every prefix has about as many
    instances of each template.
    """
    draw = Random(rules.rng_seed)  # noqa: S311 - a frozen stream
    tasks = sorted(
        (t for t in benchmark.tasks if t.is_sealed), key=lambda task: (task.template.encode(), task.env_seed)
    )
    if takes_seeds(benchmark, rules):
        by_seed: dict[int, list[BenchmarkTask]] = {}
        for task in sorted(tasks, key=lambda task: task.env_seed):
            by_seed.setdefault(task.env_seed, []).append(task)
        return tuple(map(tuple, _shuffle(list(by_seed.values()), draw)))
    queues: dict[str, list[BenchmarkTask]] = {}
    for task in tasks:
        queues.setdefault(task.template, []).append(task)
    shuffled = [_shuffle(queue, draw) for queue in queues.values()]
    longest = max(map(len, shuffled), default=0)
    rounds = ([queue[place] for queue in shuffled if place < len(queue)] for place in range(longest))
    return tuple((task,) for each in rounds for task in _shuffle(each, draw))


def order_anew(rules: Rules, benchmark: BenchmarkFrozen, challenge: int) -> Rules:
    """The rules with an order of units for this challenger alone, where the test looks before all were played.

    One order for all challengers would show every one of them to the same first instances: whoever is told how far
    each came could fit these few.
    """
    if rules.test not in {"group_sequential", "e_process"}:
        return rules
    drawn = sha256(f"order of {benchmark.digest}, challenger {challenge}".encode()).digest()
    return rules.model_copy(update={"rng_seed": int.from_bytes(drawn[:4])})


def count_sealed_units(benchmark: BenchmarkFrozen, rules: Rules) -> int:
    """Number of independent units of a benchmark under these rules: what `min_pairs` is compared with."""
    return len(order_units(benchmark, rules))


def order(benchmark: BenchmarkFrozen, rules: Rules) -> Tasks:
    """Sealed instances in the order of their units."""
    return tuple(task for unit in order_units(benchmark, rules) for task in unit)


def _shuffle(values: Sequence[_Drawn], draw: Random) -> list[_Drawn]:
    """Shuffle as Fisher and Yates do; written out because `Random.shuffle` may change between Python versions."""
    found = list(values)
    for last in range(len(found) - 1, 0, -1):
        other = draw.getrandbits(last.bit_length())
        while other > last:
            other = draw.getrandbits(last.bit_length())
        found[last], found[other] = found[other], found[last]
    return found


def pool_by_seed(instances: Iterable[PairedInstance], strata: Strata) -> Strata:
    """One stratum of seeds: the contributions of all instances at a seed, summed, in order of seed."""
    sums: dict[int, int] = {}
    for instance, value in zip(instances, strata.flat, strict=True):
        sums[instance.env_seed] = sums.get(instance.env_seed, 0) + value
    return Strata(("",), (tuple(sums[seed] for seed in sorted(sums)),), strata.scale)
