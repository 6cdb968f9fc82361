"""Address drift: which seeds serve a site at its documented addresses, and which at drifted ones. Pure.

Seeds below 10 000 are for training and the others are sealed; a site has one pool of drifted addresses for each.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final, TypeVar

F = TypeVar("F")
SEALED_FROM: Final = 10_000


def draw_family(seed: int, *, stream: str, run: int, canonical: F, pools: tuple[Sequence[F], Sequence[F]]) -> F:
    """Address family of a seed: one in each run of `run` seeds is canonical, and neighbours never share a family.

    `pools` are the drifted families for training and for sealed seeds; the stream's name makes sites independent.
    """
    which, offset = divmod(seed, run)
    place = random.Random(f"{stream}:{which}").randrange(run - 1)  # noqa: S311 (a repeatable stream is wanted)
    if offset == place:
        return canonical
    pool = pools[seed >= SEALED_FROM]
    drifted_before = which * (run - 1) + offset - (offset > place)
    return pool[drifted_before % len(pool)]


def expression_of(pattern: str) -> str:
    """Regular expression of an address pattern: `{slug}` and `{id}` become groups, and a final slash is ignored."""
    literal = re.escape(pattern.rstrip("/"))
    slug, number = re.escape("{slug}"), re.escape("{id}")
    return literal.replace(slug, r"(?P<slug>[a-z0-9-]+)").replace(number, r"(?P<id>[0-9]{1,12})")
