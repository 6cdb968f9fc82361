"""A check, by asking a server, that its logprobs are of the distribution from which it samples. Pure.

Logprobs after temperature: at half the temperature the difference of two tokens' logprobs is twice as large. Before
it, the difference stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Final

WHOLE, HALF = 1_000_000, 500_000
_LEAST: Final = 0.1
"""Least difference of two logprobs that is compared; a smaller one may be rounding."""

Ask = Callable[[int], Mapping[str, float]]
"""Asks for one token at a temperature in millionths; returns the logprobs of the likeliest tokens."""


def scaling_of_logprobs(ask: Ask) -> float | None:
    """The factor by which halving the temperature stretches differences of logprobs: 2 after temperature, 1 before it.

    None if the server tells of fewer than two common tokens, or of equally likely ones.
    """
    whole, half = ask(WHOLE), ask(HALF)
    common = sorted(whole.keys() & half.keys())
    pairs = [(whole[one] - whole[other], half[one] - half[other]) for one, other in combinations(common, 2)]
    widest = max(pairs, key=lambda pair: abs(pair[0]), default=None)
    return None if widest is None or abs(widest[0]) < _LEAST else widest[1] / widest[0]
