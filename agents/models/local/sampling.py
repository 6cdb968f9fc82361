"""One token out of the logits of one row: by a number that its seed, sample and place give. Pure, in float64.

A draw knows nothing of the rows beside it. So a request draws the same tokens alone and in any batch, as far as its
logits are the same: on the CPU they differ by about a millionth with the size of a batch.
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
    """The number between 0 and 1, both excluded, that a draw is made by; `place` counts tokens from the first message.

    No two tokens of a conversation have one place, so that its answers are drawn independently.
    """
    bits = int.from_bytes(sha256(f"{seed}:{sample}:{place}".encode()).digest()[:8]) >> (64 - _BITS)
    return (bits + 0.5) / (1 << _BITS)


def draw_token(logits: NDArray[Any], temperature_micro: int, top_p_micro: int, number: float) -> tuple[int, float]:
    """A token and the logarithm of the probability that it was drawn with, after temperature and cut.

    At temperature 0 it is the likeliest token, of equals the one with the lowest id, and it was certain: 0.0.
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
    """The fewest likeliest tokens that have this share together; of equals those with the lower ids."""
    import numpy as np

    order = np.argsort(-shares, kind="stable")
    upto = np.cumsum(shares[order])
    kept = order[: int(np.searchsorted(upto, top_p * upto[-1])) + 1]
    found = np.zeros_like(shares)
    found[kept] = shares[kept]
    return found
