"""Integer confidence intervals, rounded outwards: the stratified bootstrap and Wilson's. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, isqrt, lcm

import numpy as np

from eventlog.events import Interval

from .errors import NoSamples
from .exact import Array, Octets, integers, octets
from .stats import MICRO, Resampled, ceil_divide
from .strata import Strata

_Z = 1_959_963_984_540
_Z_UNIT = 10**12
"""The 97.5 % point of the normal distribution is _Z / _Z_UNIT."""

_BLOCK = 1_000
_OCTET, _WORD = 256, 2**32


def resample(strata: Strata, samples: int, seed: int) -> Resampled:
    """Share of resampled means above zero, and interval, by resampling instances inside strata from a frozen stream.

    From n instances n - 1 are drawn with replacement, which gives the mean of a stratum the right variance; n draws
    would vary too little in small strata. A stratum of one instance does not vary. The interval is a percentile
    interval. Raises NoSamples.
    """
    if samples < 1:
        raise NoSamples(actual=samples, expected=1)
    draw = octets(seed)
    shared = lcm(*(len(stratum) - 1 for stratum in strata.values if len(stratum) > 1))
    totals = [0] * samples
    for stratum in strata.values:
        size = max(1, len(stratum) - 1)
        weight = len(stratum) * (shared // size)
        sums = _sums(draw, stratum, size, samples)
        totals = [total + weight * drawn for total, drawn in zip(totals, sums, strict=True)]
    totals.sort()
    tail, denominator = samples * 25 // 1000, strata.scale * shared
    low, high = totals[tail] // denominator, ceil_divide(totals[samples - 1 - tail], denominator)
    return Resampled(MICRO * sum(total > 0 for total in totals) // samples, Interval(low=low, high=high))


def _sums(draw: Octets, values: Sequence[int], size: int, samples: int) -> Iterator[int]:
    """Sums of `size` values drawn with replacement, one for each sample.

    At most 256 values on a grid of at most 256 points are drawn directly as bytes that hold those points.
    """
    low = min(values)
    step = gcd(*(value - low for value in values)) or 1
    points = [(value - low) // step for value in values]
    are_octets = len(values) <= _OCTET and max(points) < _OCTET
    column = integers(values, size)
    for block in range(0, samples, _BLOCK):
        rows = min(_BLOCK, samples - block)
        if are_octets:
            drawn = _octets(draw, points, rows * size)[: rows * size].reshape(rows, size)
            yield from (low * size + step * total for total in drawn.sum(axis=1, dtype=np.int64).tolist())
            continue
        indexes = (_octets if len(values) <= _OCTET else _words)(draw, range(len(values)), rows * size)
        yield from column[indexes[: rows * size]].reshape(rows, size).sum(axis=1).tolist()


def _octets(draw: Octets, values: Sequence[int], wanted: int) -> Array:
    """At least `wanted` uniform draws of at most 256 values, by octets; rejects octets that would bias the draw."""
    limit = _OCTET // len(values) * len(values)
    beyond = bytes(range(limit, _OCTET))
    table = bytes(values[octet % len(values)] for octet in range(_OCTET))
    kept = b""
    while len(kept) < wanted:
        missing = (wanted - len(kept)) * _OCTET // limit + 1
        kept += draw(missing).translate(table, beyond)
    return np.frombuffer(kept, dtype=np.uint8)


def _words(draw: Octets, values: Sequence[int], wanted: int) -> Array:
    """At least `wanted` uniform draws of indexes of `values`, by 32-bit words; drops words that would bias the draw."""
    below = len(values)
    limit = _WORD // below * below
    kept = np.empty(0, dtype=np.uint32)
    while len(kept) < wanted:
        missing = wanted - len(kept)
        words = np.frombuffer(draw(4 * missing), dtype="<u4")
        kept = np.concatenate([kept, words[words < limit]])
    return kept % below


def wilson(passed: int, runs: int) -> Interval:
    """95 % Wilson score interval of `passed` out of `runs`, in millionths; 0 to 1_000_000 if there are no runs."""
    if not 0 <= passed <= runs:
        raise ValueError(f"{passed} of {runs} runs passed; expected 0 to {runs}")
    if runs == 0:
        return Interval(low=0, high=MICRO)
    unit, z = _Z_UNIT**2, _Z**2
    centre = runs * (2 * passed * unit + z)
    spread = _Z * isqrt(runs * (runs * z + 4 * passed * (runs - passed) * unit))
    denominator = 2 * runs * (runs * unit + z)
    return Interval(
        low=MICRO * (centre - spread) // denominator, high=ceil_divide(MICRO * (centre + spread), denominator)
    )
