"""Intervals in integers, rounded outwards: a stratified bootstrap and Wilson's. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from math import gcd, isqrt, lcm
from random import Random

from eventlog.events import Interval

from .errors import NoSamples
from .stats import MICRO, Resampled, ceiling
from .strata import Strata

_Z = 1_959_963_984_540
_Z_UNIT = 10**12
"""The 97.5 % point of the normal distribution is _Z / _Z_UNIT."""

_BLOCK = 1_000
_OCTET, _WORD = 256, 2**32
_EVEN = int.from_bytes(b"\xff\x00" * 128, "little")
"""Every other octet."""


_Draw = Callable[[int], int]


def resampled(strata: Strata, samples: int, seed: int) -> Resampled:
    """Resample instances inside their strata, from a frozen stream: the share of means above zero, and the interval.

    From n instances n - 1 are drawn with replacement: so the mean of a stratum varies as much as it should, where n
    draws vary too little in small strata. A stratum of one instance does not vary. The interval is the percentile one.
    Raises NoSamples.
    """
    if samples < 1:
        raise NoSamples(actual=samples, expected=1)
    draw = Random(seed).getrandbits  # noqa: S311 - a frozen stream, not a secret
    shared = lcm(*(len(stratum) - 1 for stratum in strata.values if len(stratum) > 1))
    totals = [0] * samples
    for stratum in strata.values:
        size = max(1, len(stratum) - 1)
        weight = len(stratum) * (shared // size)
        sums = _sums(draw, stratum, size, samples)
        totals = [total + weight * drawn for total, drawn in zip(totals, sums, strict=True)]
    totals.sort()
    tail, denominator = samples * 25 // 1000, strata.scale * shared
    low, high = totals[tail] // denominator, ceiling(totals[samples - 1 - tail], denominator)
    return Resampled(MICRO * sum(total > 0 for total in totals) // samples, Interval(low=low, high=high))


def _sums(draw: _Draw, values: Sequence[int], size: int, samples: int) -> Iterator[int]:
    """Sums of `size` values drawn with replacement, one for each sample.

    Of at most 256 values each byte is summed by itself: what is drawn stays bytes, and no number is made of a draw.
    """
    low = min(values)
    step = gcd(*(value - low for value in values)) or 1
    grid = [(value - low) // step for value in values]
    planes = [
        bytes(grid[octet % len(grid)] >> shift & 255 for octet in range(_OCTET))
        for shift in range(0, max(grid).bit_length(), 8)
    ]
    for block in range(0, samples, _BLOCK):
        drawn = size * min(_BLOCK, samples - block)
        if len(values) > _OCTET:
            words = _words(draw, len(values), drawn)
            yield from (sum(map(values.__getitem__, words[at : at + size])) for at in range(0, drawn, size))
            continue
        octets = _octets(draw, len(values), drawn)
        layers = [octets.translate(plane) for plane in planes]
        for at in range(0, drawn, size):
            points = sum(_sum_of(layer[at : at + size]) << 8 * place for place, layer in enumerate(layers))
            yield low * size + step * points


def _sum_of(octets: bytes) -> int:
    """The sum of at most 255 octets: neighbours are added in lanes of 16 bits, and a rest adds the lanes."""
    lanes = int.from_bytes(octets, "little")
    return ((lanes & _EVEN) + (lanes >> 8 & _EVEN)) % 65_535


def _octets(draw: _Draw, below: int, wanted: int) -> bytes:
    """Octets whose rests by at most 256 are uniform indexes: those not above the last whole round of them."""
    limit = _OCTET // below * below
    beyond = bytes(range(limit, _OCTET))
    kept = b""
    while len(kept) < wanted:
        missing = (wanted - len(kept)) * _OCTET // limit + 1
        kept += draw(8 * missing).to_bytes(missing, "little").translate(None, beyond)
    return kept


def _words(draw: _Draw, below: int, wanted: int) -> list[int]:
    """Uniform indexes below more than 256, by words of 32 bits."""
    limit = _WORD // below * below
    kept: list[int] = []
    while len(kept) < wanted:
        missing = wanted - len(kept)
        drawn = struct.unpack(f"<{missing}I", draw(32 * missing).to_bytes(4 * missing, "little"))
        kept += [word % below for word in drawn if word < limit]
    return kept


def wilson(passed: int, runs: int) -> Interval:
    """The 95 % Wilson score interval of `passed` out of `runs`, in millionths; of no runs, everything is possible."""
    if not 0 <= passed <= runs:
        raise ValueError(f"{passed} of {runs} runs passed; expected 0 to {runs}")
    if runs == 0:
        return Interval(low=0, high=MICRO)
    unit, z = _Z_UNIT**2, _Z**2
    centre = runs * (2 * passed * unit + z)
    spread = _Z * isqrt(runs * (runs * z + 4 * passed * (runs - passed) * unit))
    denominator = 2 * runs * (runs * unit + z)
    return Interval(low=MICRO * (centre - spread) // denominator, high=ceiling(MICRO * (centre + spread), denominator))
