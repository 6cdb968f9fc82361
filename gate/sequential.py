"""A group sequential sign-flip test: looks at planned shares of the units, and stops where one settles it. Pure.

At each look alpha is spent on the sign-flip test of the sum of all differences so far, given that no earlier look
rejected. Signs of all units are drawn `draws_per_alpha` / alpha times from a frozen stream. The observed signs and the
drawn ones are one pool, which the rule treats alike: at a look, those of it with the largest sums are rejected, as many
as the alpha spent so far allows, ties together or not at all. So at most that share of the pool is ever rejected, and
the probability that the observed signs are among it is at most alpha: exactly, for any distribution of scores. Alpha is
spent as Hwang, Shih and DeCani propose (Statistics in Medicine 9, 1990). A stop for futility may only hold, and nothing
is gained from it: the bounds may be ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import lcm

import numpy as np

from eventlog.events import BenchmarkFrozen, Look, LookOutcome, Rules

from .alpha import Alpha
from .arms import Arm, PairedInstance, Pairs, pairs
from .counts import floor_pico, pico
from .exact import Array
from .losses import Charged, SignSums, Unit, charge_of, charged_units, has_losses
from .randomisation import draw_sums
from .stats import MICRO, ceil_divide
from .units import Tasks, order_units, unit_key
from .voids import gaps

_UNIT = 10**18
_STREAM = 2**32
"""Looks draw from streams this far apart."""


@dataclass(frozen=True, slots=True)
class LookResult:
    """One look: the p of all looks so far, and the alpha spent so far, as exact fractions."""

    number: int
    of: int
    units: int
    p: Fraction
    spent: Fraction
    outcome: LookOutcome


@dataclass(frozen=True, slots=True)
class Path:
    """Looks up to the one that settles the test, the pairs that they saw, and why the next look is void, if it is."""

    looks: tuple[LookResult, ...]
    compared: Pairs
    looked_at: int
    voids: tuple[str, ...]

    @property
    def last(self) -> LookResult | None:
        """The last look; None if there was none."""
        return self.looks[-1] if self.looks else None


def alpha_spent(alpha: int, share: int, gamma: int) -> Fraction:
    """Alpha that may be spent at `share` of the units, with the spending function of Hwang, Shih and DeCani.

    `alpha`, `share` and `gamma` are in millionths; 0 for `gamma` spends evenly. Computed in fixed point and rounded
    down, except that the whole alpha is spent at the end.
    """
    if share >= MICRO or not gamma:
        return Fraction(alpha, MICRO) * Fraction(min(share, MICRO), MICRO)
    one, whole = 1 - _exponential(Fraction(-gamma * share, MICRO**2)), 1 - _exponential(Fraction(-gamma, MICRO))
    return Fraction(int(Fraction(alpha, MICRO) * one / whole * _UNIT), _UNIT)


def _exponential(power: Fraction) -> Fraction:
    """The exponential of a number of at most 20, to 18 digits."""
    term, total, index = Fraction(1), Fraction(1), 0
    while abs(term) * _UNIT > 1:
        index += 1
        term = Fraction(int(term * power / index * _UNIT**2), _UNIT**2)
        total += term
    return total


def stages(benchmark: BenchmarkFrozen, rules: Rules) -> tuple[Tasks, ...]:
    """New sealed instances of each look, in the order they are played; a look without a new unit is left out."""
    units = order_units(benchmark, rules)
    ends = sorted({ceil_divide(len(units) * share, MICRO) for share in rules.looks} | {len(units)})
    begins = [0, *ends[:-1]]
    cut = (units[begin:end] for begin, end in zip(begins, ends, strict=True) if end > begin)
    return tuple(tuple(task for unit in each for task in unit) for each in cut)


def look_at(
    champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha, most: int | None = None
) -> Path:
    """The path up to the first look that rejects, is futile, or cannot be compared; at most `most` looks."""
    planned = stages(benchmark, rules)
    plain, charged = _first_tests(champion, challenger, benchmark, rules, spent.alpha, tuple(chain(*planned)))
    tasks: Tasks = ()
    compared, looks = Pairs((), 0, 0), list[LookResult]()
    for number, new in enumerate(planned[:most], start=1):
        share = MICRO * (len(tasks) + len(new)) // sum(map(len, planned))
        seen = pairs(champion, challenger, benchmark, (*tasks, *new))
        voids = tuple(gaps(seen, rules, share))
        if voids:
            return Path(tuple(looks), seen if looks else _unseen(seen), len(tasks) + len(new), voids)
        tasks, compared = (*tasks, *new), seen
        allowed = alpha_spent(spent.alpha, share, rules.spending)
        seed = rules.rng_seed + number * _STREAM
        plain = plain.look(_units_of(new, rules), allowed, seed)
        tests: list[_Plain | _Charged] = [plain]
        if charged is not None:
            charge = charge_of(seen, champion, benchmark, tasks)
            charged = charged.look(_units_of(new, rules), charge, allowed, seed)
            tests += [charged] if has_losses(champion, challenger, benchmark, tasks) else []
        is_rejected = all(test.is_rejected for test in tests)
        outcome = _outcome(plain, rules, number, len(planned), is_rejected=is_rejected)
        p = max(test.p for test in tests)
        looks.append(LookResult(number, len(planned), len(plain.seen), p, allowed, outcome))
        if outcome != "continue":
            break
    return Path(tuple(looks), compared, len(tasks), ())


def _units_of(tasks: Tasks, rules: Rules) -> tuple[Unit, ...]:
    return tuple(dict.fromkeys(unit_key(task, rules) for task in tasks))


def _unseen(seen: Pairs) -> Pairs:
    """Pairs without their results: what was never looked at is not told by a verdict."""
    return Pairs((), seen.planned, seen.missing, 0, 0, seen.champion_lost, seen.challenger_lost, seen.interrupted)


def _unit_values(instances: Sequence[PairedInstance], rules: Rules) -> dict[tuple[str, int], int]:
    """Sum of the mean differences of each unit's instances, as integers of one scale."""
    scale = lcm(*(len(instance.deltas) for instance in instances))
    found: dict[tuple[str, int], int] = {}
    for instance in instances:
        value = sum(instance.deltas) * (scale // len(instance.deltas))
        unit = unit_key(instance, rules)
        found[unit] = found.get(unit, 0) + value
    return found


@dataclass(frozen=True, slots=True)
class _Pool:
    """Sums of the drawn signs over all units so far, and which draws were rejected at an earlier look."""

    sums: Array
    is_rejected: Array

    def look(self, observed: int, allowed: Fraction) -> tuple[Array, Fraction]:
        """The draws that are rejected by now, and the p of an `observed` sum that was never rejected."""
        left, before = self.sums[~self.is_rejected], int(self.is_rejected.sum())
        p = Fraction(before + int((left >= observed).sum()) + 1, len(self.sums) + 1)
        room = int(allowed * (len(self.sums) + 1)) - before
        ordered = np.sort(np.append(left, observed))[::-1]
        is_beyond = self.sums > ordered[room] if room < len(ordered) else np.ones(len(self.sums), dtype=bool)
        return self.is_rejected | is_beyond, p


@dataclass(frozen=True, slots=True)
class _Plain:
    """The test of the results as they are. Once it rejected it stands, with the p of that look."""

    values: Mapping[Unit, int]
    pool: _Pool
    seen: tuple[int, ...] = ()
    p: Fraction = Fraction(1)
    is_rejected: bool = False

    def look(self, units: Sequence[Unit], allowed: Fraction, seed: int) -> _Plain:
        """After a look at these further units."""
        fresh = tuple(self.values[unit] for unit in units if unit in self.values)
        seen = (*self.seen, *fresh)
        if self.is_rejected:
            return replace(self, seen=seen)
        magnitudes = [abs(value) for value in fresh if value]
        sums = self.pool.sums + draw_sums(magnitudes, len(self.pool.sums), seed) if magnitudes else self.pool.sums
        gone, p = _Pool(sums, self.pool.is_rejected).look(sum(seen), allowed)
        return replace(self, pool=_Pool(sums, gone), seen=seen, p=p, is_rejected=p <= allowed)


@dataclass(frozen=True, slots=True)
class _Charged:
    """The test with places that lost a run charged to their arm; it stands like the plain one once it rejected."""

    values: Charged
    sums: SignSums
    is_gone: Array
    seen: tuple[Unit, ...] = ()
    p: Fraction = Fraction(1)
    is_rejected: bool = False

    def look(self, units: Sequence[Unit], charge: int, allowed: Fraction, seed: int) -> _Charged:
        """After a look at these further units, with the charge of all that was seen."""
        seen = (*self.seen, *units)
        if self.is_rejected:
            return replace(self, seen=seen)
        sums, observed = self.sums.after(self.values, units, seed), self.values.sum_at(seen, charge)
        gone, p = _Pool(sums.at(charge), self.is_gone).look(observed, allowed)
        return replace(self, sums=sums, is_gone=gone, seen=seen, p=p, is_rejected=p <= allowed)


def _first_tests(
    champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, alpha: int, tasks: Tasks
) -> tuple[_Plain, _Charged | None]:
    """Both tests before any look; none is charged if no run was lost. With no alpha few draws suffice to hold."""
    draws = ceil_divide(rules.draws_per_alpha * MICRO, alpha or MICRO)
    gone = np.zeros(draws, dtype=bool)
    values = _unit_values(pairs(champion, challenger, benchmark, tasks).instances, rules)
    plain = _Plain(values, _Pool(np.zeros(draws, dtype=np.int64), gone))
    if not rules.charges_losses or not has_losses(champion, challenger, benchmark, tasks):
        return plain, None
    units = charged_units(champion, challenger, benchmark, tasks, rules)
    return plain, _Charged(units, SignSums.start(draws), gone)


def _outcome(plain: _Plain, rules: Rules, number: int, looks: int, *, is_rejected: bool) -> LookOutcome:
    if is_rejected:
        return "reject"
    if number == looks:
        return "end"
    bounds = () if plain.is_rejected else rules.futility[number - 1 : number]
    return "futile" if bounds and _is_below(plain.seen, bounds[0]) else "continue"


def _is_below(sums: Sequence[int], bound: int) -> bool:
    """True if the sum is less than `bound` standard deviations (in millionths) under random signs, or all are zero."""
    total, square = sum(sums) * MICRO, sum(value * value for value in sums)
    return not square or total * abs(total) < bound * abs(bound) * square


def list_looks(path: Path) -> tuple[Look, ...]:
    """The looks of a path as a verdict holds them."""
    return tuple(
        Look(
            number=look.number,
            of=look.of,
            units=look.units,
            p_value=pico(look.p),
            boundary=floor_pico(look.spent),
            outcome=look.outcome,
        )
        for look in path.looks
    )
