"""Simulates thousands of evaluations at once: the test at its looks as arrays, what looks worse by the real gate.

The distribution of sums under random signs is counted exactly (in floating point), where the gate draws signs: with as
many draws as the rules ask for, both decide alike but at the very boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]
from scipy.fft import irfft, next_fast_len, rfft  # type: ignore[import-untyped]

from eventlog.events import Rules
from gate.arms import Arm, PairedInstance, Place, Result
from gate.confirmation import confirm, find_suspects, next_repeats
from gate.permutation import Division, lower_tail
from gate.sequential import alpha_spent
from gate.strata import stratify

from .charged import first_rejections
from .worlds import TEMPLATES, arm_named, frozen

MICRO = 1_000_000
NOTHING = 1e-9
SEQUENTIAL = Rules.default()
REPLAYS = SEQUENTIAL.replays
FIXED = Rules()
"""The first design: all instances, then twelve repeats of everything that looked worse."""

Again = Callable[[int, int, int, int], tuple[Any, Any]]
"""Fresh scores and how often each was lost: evaluation, instance, arm, number of repeats."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Evaluations of one world: scores in `grain`ths, shaped (evaluations, instances, repeats) in both arms.

    Instances are in the order played, templates in turn. `unit` instances that follow one another share a seed. `lost`
    counts lost runs by arm, shaped (arms, evaluations, instances), of one repeat; an instance that is not `kept` lacks
    an arm. `effect` is what the challenger is really worth at each instance, where a world tells it.
    """

    first: Any
    second: Any
    again: Again
    grain: int = 1
    unit: int = 1
    lost: Any = None
    kept: Any = None
    effect: Any = None


@dataclass
class Tally:
    """Counts over evaluations: of every outcome, runs in all, and of rejections what was vetoed, and by what.

    `unfounded` counts promotions of a challenger that is really no better in the mean of the instances played.
    """

    evaluations: int = 0
    promoted: int = 0
    unfounded: int = 0
    rejected: int = 0
    void: int = 0
    unseen: int = 0
    vetoed: int = 0
    by_family: int = 0
    runs: int = 0
    looks: list[int] = field(default_factory=lambda: [0] * 5)


@dataclass(frozen=True, slots=True)
class Walk:
    """Where each evaluation stopped (looks from 0), and whether it rejected, was void, or was void before any look."""

    stop: Any
    is_rejected: Any
    is_void: Any


def run_batch(batch: Batch, rules: Rules, alpha: int, tally: Tally) -> None:
    """Judge a batch under these rules and add it to a tally."""
    shares = rules.looks or (MICRO,)
    walk = _walk(batch, rules, alpha, shares)
    _, instances, repeats = batch.first.shape
    ends = [-(-(instances // batch.unit) * share // MICRO) * batch.unit for share in shares]
    tally.evaluations += len(batch.first)
    tally.void += int(walk.is_void.sum())
    tally.unseen += int((walk.is_void & (walk.stop == 0)).sum())
    tally.rejected += int(walk.is_rejected.sum())
    for place, end in enumerate(ends):
        here = walk.stop == place
        tally.looks[place] += int(here.sum())
        tally.runs += int(here.sum()) * 2 * end * repeats
        if batch.lost is not None:
            tally.runs += int(np.minimum(batch.lost[:, here, :end], rules.replays).sum())
        for one in np.flatnonzero(here & walk.is_rejected):
            _confirm_one(batch, int(one), end, rules, tally)


def walk(batch: Batch, rules: Rules, alpha: int) -> tuple[Any, Any]:
    """The look (from 0) at which each evaluation stopped, and whether it rejected."""
    found = _walk(batch, rules, alpha, rules.looks or (MICRO,))
    return found.stop, found.is_rejected


def confirm_rejected(batch: Batch, rules: Rules, stop: Any, is_rejected: Any, tally: Tally) -> Any:
    """True for each rejected evaluation that the margin and fresh repeats leave promoted; adds to a tally."""
    units = batch.first.shape[1] // batch.unit
    ends = [-(-units * share // MICRO) * batch.unit for share in rules.looks or (MICRO,)]
    is_promoted = np.zeros(len(batch.first), dtype=bool)
    for one in np.flatnonzero(is_rejected):
        before = tally.promoted
        _confirm_one(batch, int(one), ends[stop[one]], rules, tally)
        is_promoted[one] = tally.promoted > before
    return is_promoted


def _walk(batch: Batch, rules: Rules, alpha: int, shares: Sequence[int]) -> Walk:
    """Go through all looks; evaluations that stopped are left out of the next."""
    if batch.lost is None or not rules.charges_losses:
        return _walk_plain(batch, rules, alpha, shares)
    return _walk_charged(batch, rules, alpha, shares)


def _walk_charged(batch: Batch, rules: Rules, alpha: int, shares: Sequence[int]) -> Walk:
    """The same where lost places are charged: an evaluation that the plain test rejects plays on until both do."""
    plain, ends = _walk_plain(batch, rules, alpha, shares), [-(-batch.first.shape[1] * s // MICRO) for s in shares]
    stop, is_rejected, is_void = plain.stop.copy(), np.zeros(len(plain.stop), dtype=bool), plain.is_void.copy()
    tested = np.flatnonzero(plain.is_rejected)
    if not len(tested):
        return plain
    own = (batch.first[tested, :, 0], batch.second[tested, :, 0], batch.kept[tested], batch.lost[:, tested])
    both = np.maximum(first_rejections(*own, ends, rules, alpha, int(batch.first.sum())), stop[tested])
    known = np.array(ends)[stop[tested]]
    is_spared = np.array([not batch.lost[:, one, :end].any() for one, end in zip(tested, known, strict=True)])
    both[is_spared] = stop[tested][is_spared]
    gone = np.full(len(tested), len(ends))
    for place in reversed(range(len(ends))):
        is_late = place > stop[tested]
        gone[is_late & _is_void(batch, rules, tested, ends[place])] = place
    is_void[tested] = gone <= np.minimum(both, len(ends) - 1)
    stop[tested] = np.minimum(np.minimum(both, gone), len(ends) - 1)
    is_rejected[tested] = ~is_void[tested] & (both < len(ends))
    return Walk(stop, is_rejected, is_void)


def _walk_plain(batch: Batch, rules: Rules, alpha: int, shares: Sequence[int]) -> Walk:
    """Go through the looks of the test of the results as they are."""
    deltas = (batch.second - batch.first).sum(axis=2)
    if batch.kept is not None:
        deltas = np.where(batch.kept, deltas, 0)
    deltas = deltas.reshape(len(deltas), -1, batch.unit).sum(axis=2)
    count, units = deltas.shape
    stop, is_rejected = np.full(count, len(shares) - 1), np.zeros(count, dtype=bool)
    is_void = np.zeros(count, dtype=bool)
    going, spent = np.arange(count), np.zeros(count)
    ways = np.zeros((count, int(np.abs(deltas).sum(axis=1).max()) + 1))
    ways[:, 0], begin = 1.0, 0
    for place, share in enumerate(shares):
        end = -(-units * share // MICRO)
        gone = _is_void(batch, rules, going, end * batch.unit)
        stop[going[gone]], is_void[going[gone]] = place, True
        going, ways, spent = going[~gone], ways[~gone], spent[~gone]
        ways = _add(ways, np.abs(deltas[going, begin:end]))
        allowed = float(alpha_spent(alpha, share, rules.spending)) + 1e-12
        known = deltas[going, :end]
        total, size = known.sum(axis=1), np.abs(known).sum(axis=1)
        tail = spent[:, None] + ways[:, ::-1].cumsum(axis=1)[:, ::-1]
        observed = (total + size) // 2
        rejects = tail[np.arange(len(going)), observed] <= allowed
        is_rejected[going[rejects]] = True
        futile = np.zeros(len(going), dtype=bool)
        if place < len(shares) - 1 and rules.futility:
            square = (known.astype(float) ** 2).sum(axis=1)
            futile = ~rejects & ((square == 0) | (total < rules.futility[place] / MICRO * np.sqrt(square)))
        stop[going[rejects | futile]] = place
        beyond = tail <= allowed
        spent = spent + np.where(beyond, ways, 0).sum(axis=1)
        ways = np.where(beyond, 0, ways)
        kept = ~rejects & ~futile
        going, ways, spent, begin = going[kept], ways[kept], spent[kept], end
    return Walk(stop, is_rejected, is_void)


def _add(ways: Any, magnitudes: Any) -> Any:
    """Chances of the sum of positive differences after further units with random signs."""
    for column in magnitudes.T:
        moved = np.zeros_like(ways)
        for size in np.unique(column):
            own = column == size
            moved[own, size:] = ways[own, : ways.shape[1] - size]
        ways = (ways + moved) / 2
    return ways


def _is_void(batch: Batch, rules: Rules, going: Any, end: int) -> Any:
    if batch.lost is None:
        return np.zeros(len(going), dtype=bool)
    missing = (~batch.kept[going, :end]).sum(axis=1)
    uneven = batch.lost[:, going, :end].sum(axis=2) if rules.replays else _missing_by_arm(batch, going, end)
    p = np.minimum(1, 2 * stats.binom.cdf(uneven.min(axis=0), uneven.sum(axis=0), 0.5))
    return (missing * MICRO > rules.max_missing * end) | (p * MICRO < rules.max_missing_p)


def _missing_by_arm(batch: Batch, going: Any, end: int) -> Any:
    """Instances that lack only this arm's run, where no lost run is played again."""
    lost = batch.lost[:, going, :end] > 0
    return np.stack([(lost[0] & ~lost[1]).sum(axis=1), (lost[1] & ~lost[0]).sum(axis=1)])


def _confirm_one(batch: Batch, one: int, end: int, rules: Rules, tally: Tally) -> None:
    """Check the margin, and play again what looked worse in one evaluation whose test rejected."""
    repeats, unit = batch.first.shape[2], MICRO // batch.grain
    first, second = batch.first[one, :end] * unit, batch.second[one, :end] * unit
    places = [place for place in range(end) if batch.kept is None or batch.kept[one, place]]
    instances = _paired(first, second, places)
    strata = stratify((each.template, each.deltas) for each in instances)
    if strata.mean() < rules.min_mean_delta:
        return
    failing = _failing(batch, one, first, second) if rules.charges_losses and batch.lost is not None else ()
    suspects = find_suspects(instances, strata, rules, failing)
    benchmark = frozen(batch.first.shape[1], repeats)
    arms = arm_named("champion", benchmark), arm_named("challenger", benchmark)
    left = confirm(suspects, *arms, benchmark, rules, approximate_tail)
    while left.open or (not rules.curtails and not arms[0].confirming and suspects.instances):
        for each in left.open or suspects.instances:
            again = range(repeats, repeats + rules.confirm_repeats)
            if rules.curtails:
                again = next_repeats(*arms, benchmark, rules, (each.template, each.env_seed))
            arms = (_play_again(batch, one, each, again, arms[0]), _play_again(batch, one, each, again, arms[1]))
            tally.runs += 2 * len(again)
        left = confirm(suspects, *arms, benchmark, rules, approximate_tail)
    by_family = any(each.is_worse for each in left.families)
    is_vetoed = by_family or any(each.is_regression for each in left.instances)
    tally.by_family += by_family
    tally.vetoed += is_vetoed
    tally.promoted += not is_vetoed
    if not is_vetoed and batch.effect is not None:
        tally.unfounded += bool(batch.effect[one, :end].mean() < NOTHING)


def _play_again(batch: Batch, one: int, instance: PairedInstance, again: range, arm: Arm) -> Arm:
    """The arm with further fresh repeats of an instance."""
    place = instance.env_seed * TEMPLATES + int(instance.template[1:])
    scores, lost = batch.again(one, place, int(arm.name == "challenger"), len(again))
    names: list[Place] = [(instance.template, instance.env_seed, number) for number in again]
    drawn = zip(names, _results(scores * (MICRO // batch.grain)), lost, strict=True)
    played = {name: result for name, result, times in drawn if times <= REPLAYS}
    gone = {name: int(times) for name, times in zip(names, lost, strict=True) if times}
    return replace(arm, confirming={**arm.confirming, **played}, lost={**arm.lost, **gone})


def _failing(batch: Batch, one: int, first: Any, second: Any) -> list[PairedInstance]:
    """The instances with lost places as failed."""
    lost = batch.lost[:, one, : len(first), None] > 0
    return _paired(np.where(lost[0], 0, first), np.where(lost[1], 0, second), range(len(first)))


def _paired(first: Any, second: Any, places: Iterable[int]) -> list[PairedInstance]:
    """Instances in the order of the gate."""
    found = (
        PairedInstance(f"t{place % TEMPLATES}", place // TEMPLATES, _results(first[place]), _results(second[place]))
        for place in places
    )
    return sorted(found, key=lambda each: (each.template, each.env_seed))


def approximate_tail(divisions: Sequence[Division]) -> Fraction:
    """`lower_tail` of several instances in floating point, to about 13 digits after the point.

    A family of twenty instances with scores in fiftieths takes milliseconds, where exact integers take a second.
    """
    if len(divisions) == 1:
        return lower_tail(divisions)
    observed = sum(division.observed for division in divisions)
    size = next_fast_len(sum(len(division.ways) - 1 for division in divisions) + 1, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for division in divisions:
        product *= _transformed(division.ways, size)
    return Fraction(float(np.clip(irfft(product, size)[: observed + 1].sum(), 0.0, 1.0)))


@lru_cache(4_096)
def _transformed(ways: tuple[int, ...], size: int) -> Any:
    """Fourier transform of the distribution of one instance's sum."""
    return rfft(np.array(ways, dtype=float) / float(sum(ways)), size)


def _results(scores: Any) -> tuple[Result, ...]:
    return tuple(Result(int(score), int(score) == MICRO, 1) for score in scores)
