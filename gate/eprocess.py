"""Early stopping by an e-process, a bet on each instance that gives anytime-valid evidence. Pure, in integers.

A gambler bets a share of its wealth that the challenger beats the champion on the next instance. If the challenger is
not better, the wealth is a nonnegative supermartingale, so the probability that it ever reaches 1 / alpha is at most
alpha (Ville's inequality), however often it is checked. The e-value is the mean wealth of fifteen gamblers with fixed
shares, which as a mixture is a supermartingale too (testing by betting: Waudby-Smith and Ramdas, Journal of the Royal
Statistical Society B 86, 2024). Wealth is rounded down after each bet, which can only reduce the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from eventlog.events import BenchmarkFrozen, BenchmarkTask, Rules

from .alpha import Alpha
from .arms import Arm, PairedInstance, Pairs, pairs
from .stats import MICRO
from .voids import gaps

_SHARES, _PARTS = range(1, 16), 16
"""A gambler bets `share / _PARTS` of its wealth."""

_STAKE = 2**64
"""Initial wealth of every gambler, in units of its fortune."""


@dataclass(frozen=True, slots=True)
class EProcessResult:
    """Result of an e-process over the first `looked_at` instances of the order."""

    looked_at: int
    e_value: Fraction
    is_stopped: bool

    @property
    def p(self) -> Fraction:
        """The p-value that corresponds to the e-value."""
        return min(Fraction(1), 1 / self.e_value) if self.e_value else Fraction(1)


def order(benchmark: BenchmarkFrozen, rules: Rules) -> tuple[BenchmarkTask, ...]:
    """Sealed instances in the order they are played and tested, drawn from the frozen stream of `rules.rng_seed`.

    Each round takes one instance of each template, so every prefix has about as many instances of each template.
    """
    draw = Random(rules.rng_seed)  # noqa: S311 - a frozen stream
    queues: dict[str, list[BenchmarkTask]] = {}
    tasks = (task for task in benchmark.tasks if task.is_sealed)
    for task in sorted(tasks, key=lambda task: (task.template.encode(), task.env_seed)):
        queues.setdefault(task.template, []).append(task)
    shuffled = [_shuffle(queue, draw) for queue in queues.values()]
    longest = max(map(len, shuffled), default=0)
    rounds = ([queue[place] for queue in shuffled if place < len(queue)] for place in range(longest))
    return tuple(task for each in rounds for task in _shuffle(each, draw))


def _shuffle(tasks: Sequence[BenchmarkTask], draw: Random) -> list[BenchmarkTask]:
    """Shuffle as Fisher and Yates do; written out because `Random.shuffle` may change between Python versions."""
    found = list(tasks)
    for last in range(len(found) - 1, 0, -1):
        other = draw.getrandbits(last.bit_length())
        while other > last:
            other = draw.getrandbits(last.bit_length())
        found[last], found[other] = found[other], found[last]
    return found


def stopped_at(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha) -> int | None:
    """Number of instances of `order` after which the e-process stops; None if it continues.

    It stops where 1 / alpha is reached, or can no longer be reached even if the challenger wins every remaining
    instance. It does not stop while the verdict would be void, with fewer than `rules.min_pairs` instances or too many
    missing pairs. Instances without a pair are skipped, so call this only after all repeats of the instances played so
    far have ended in both arms.
    """
    found = evidence(champion, challenger, benchmark, rules, spent)
    return found.looked_at if found.is_stopped else None


def evidence(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha) -> EProcessResult:
    """Result of the e-process where it stops, else at the end of the order."""
    tasks = order(benchmark, rules)
    fortunes = [_STAKE] * len(_SHARES)
    compared = Pairs((), 0, 0)
    for looked_at, task in enumerate(tasks, start=1):
        found = pairs(champion, challenger, benchmark, [task])
        compared = _together(compared, found)
        for instance in found.instances:
            fortunes = _after(fortunes, instance)
        left = len(tasks) - looked_at
        is_settled = _is_reached(fortunes, spent.alpha) or not _is_reachable(fortunes, left, spent.alpha)
        if found.instances and is_settled and not any(gaps(compared, rules)):
            return EProcessResult(looked_at, _mean(fortunes), is_stopped=True)
    return EProcessResult(len(tasks), _mean(fortunes), is_stopped=False)


def _together(before: Pairs, found: Pairs) -> Pairs:
    return Pairs(
        before.instances + found.instances,
        before.planned + found.planned,
        before.missing + found.missing,
        before.champion_missing + found.champion_missing,
        before.challenger_missing + found.challenger_missing,
    )


def _after(fortunes: Sequence[int], instance: PairedInstance) -> list[int]:
    """Fortunes of all gamblers after a bet on one instance: each wins or loses its share of the mean difference."""
    won, whole = sum(instance.deltas), _PARTS * MICRO * len(instance.deltas)
    return [fortune * (whole + share * won) // whole for share, fortune in zip(_SHARES, fortunes, strict=True)]


def _is_reached(fortunes: Sequence[int], alpha: int) -> bool:
    return sum(fortunes) * alpha >= len(fortunes) * _STAKE * MICRO


def _is_reachable(fortunes: Sequence[int], left: int, alpha: int) -> bool:
    best: int = sum(fortune * (_PARTS + share) ** left for share, fortune in zip(_SHARES, fortunes, strict=True))
    return best * alpha >= len(fortunes) * _STAKE * MICRO * int(_PARTS**left)


def _mean(fortunes: Sequence[int]) -> Fraction:
    return Fraction(sum(fortunes), len(fortunes) * _STAKE)
