"""Which seeds find a site's pages where its instructions say, and where the others find them. Pure.

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
    """The family of a seed: in each run of `run` seeds one is canonical, and neighbours never share a family.

    `pools` are the drifted families of training and of sealed seeds; the stream's name keeps sites apart.
    """
    which, offset = divmod(seed, run)
    place = random.Random(f"{stream}:{which}").randrange(run - 1)  # noqa: S311 (a repeatable stream is wanted)
    if offset == place:
        return canonical
    pool = pools[seed >= SEALED_FROM]
    drifted_before = which * (run - 1) + offset - (offset > place)
    return pool[drifted_before % len(pool)]


def expression_of(pattern: str) -> str:
    """The regular expression of an address pattern: `{slug}` and `{id}` stand for parts, its last slash for nothing."""
    literal = re.escape(pattern.rstrip("/"))
    slug, number = re.escape("{slug}"), re.escape("{id}")
    return literal.replace(slug, r"(?P<slug>[a-z0-9-]+)").replace(number, r"(?P<id>[0-9]{1,12})")
