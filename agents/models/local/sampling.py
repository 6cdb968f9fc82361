"""Samples a token from the logits of one row, by a number made from seed, sample and place. Pure, in float64.

Sampling does not depend on other rows of a batch. So a request gets the same tokens alone and in any batch, as far as
its logits are the same: on the CPU they differ by about a millionth with the size of a batch.
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ..errors import LogitsBroken
from ..model import MICRO

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS: Final = 53


def uniform(seed: int, sample: int, place: int) -> float:
    """A number between 0 and 1, both excluded, that selects a token. `place` counts tokens from the first message.

    Each token of a conversation has a different place, so its answers are sampled independently.
    """
    bits = int.from_bytes(sha256(f"{seed}:{sample}:{place}".encode()).digest()[:8]) >> (64 - _BITS)
    return (bits + 0.5) / (1 << _BITS)


def draw_token(logits: NDArray[Any], temperature_micro: int, top_p_micro: int, number: float) -> tuple[int, float]:
    """Sample a token. Returns it with its logprob, after temperature and top-p.

    At temperature 0 it is the likeliest token (the lowest id among equals), with logprob 0.0.
    Raises LogitsBroken.
    """
    import numpy as np

    if not np.isfinite(logits).all():
        raise LogitsBroken
    if temperature_micro == 0:
        return int(np.argmax(logits)), 0.0
    scaled = logits.astype(np.float64) * (MICRO / temperature_micro)
    scaled -= scaled.max()
    shares = np.exp(scaled)
    if top_p_micro < MICRO:
        shares = _cut(shares, top_p_micro / MICRO)
    upto = np.cumsum(shares)
    token = int(np.searchsorted(upto, number * upto[-1], side="right"))
    return token, min(0.0, float(scaled[token]) - math.log(upto[-1]))


def _cut(shares: NDArray[Any], top_p: float) -> NDArray[Any]:
    """Keep the fewest likeliest tokens that reach this share; among equals those with lower ids."""
    import numpy as np

    order = np.argsort(-shares, kind="stable")
    upto = np.cumsum(shares[order])
    kept = order[: int(np.searchsorted(upto, top_p * upto[-1])) + 1]
    found = np.zeros_like(shares)
    found[kept] = shares[kept]
    return found
