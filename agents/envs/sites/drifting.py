"""Address drift: which seeds serve a site at its documented addresses, and which at drifted ones. Pure.

Seeds below 10 000 are for training and the others are sealed; a site has one pool of drifted addresses for each.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Final, TypeVar

F = TypeVar("F")
SEALED_FROM: Final = 10_000


@dataclass(frozen=True, slots=True)
class AddressFamily:
    """One family of a site's addresses: each further field is a place, with its address from the instance's root."""

    name: str

    @property
    def patterns(self) -> Mapping[str, str]:
        """Address pattern of each place."""
        return {place.name: getattr(self, place.name) for place in fields(self)[1:]}

    def find_place(self, path: str) -> tuple[str, Mapping[str, str]] | None:
        """The place at an address, and the slug or id in it; a slash at the end is ignored."""
        for place, expression in _expressions(self):
            found = expression.fullmatch(path.rstrip("/"))
            if found:
                return place, found.groupdict()
        return None


@lru_cache(maxsize=48)
def _expressions(family: AddressFamily) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((place, re.compile(expression_of(pattern))) for place, pattern in family.patterns.items())


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
