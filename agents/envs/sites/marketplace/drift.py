"""Harbourline's addresses by seed: two pools of families that share only the canonical one.

Seeds below 10 000 draw from the training pool, the others from the sealed one. In each run of four seeds one is
canonical, and neighbours never share a family.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from ..drifting import draw_family, expression_of

RUN: Final = 4

Place = Literal["search", "detail", "lead", "phone", "thanks"]


@dataclass(frozen=True, slots=True)
class Family:
    """One family of a site's addresses; `{slug}` and `{id}` stand for the boat."""

    name: str
    search: str
    detail: str
    lead: str
    phone: str
    thanks: str

    def path(self, place: Place, *, slug: str = "", number: int = 0) -> str:
        """Address of a place, from the instance's root; a boat's place needs its slug and its id."""
        return _pattern(self, place).format(slug=slug, id=number)

    def locate(self, path: str) -> tuple[Place, str] | None:
        """The place at an address, and the slug or id in it; a slash at the end is ignored."""
        for place, expression in _expressions(self):
            found = expression.fullmatch(path.rstrip("/"))
            if found:
                return place, next(iter(found.groupdict().values()), "")
        return None


CANONICAL: Final = Family(
    "canonical", "/boats", "/boats/{slug}", "/boats/{slug}/contact", "/boats/{slug}/phone", "/boats/{slug}/thanks"
)
TRAINING: Final = (
    Family(
        "for-sale",
        "/boats-for-sale",
        "/boats-for-sale/{slug}",
        "/boats-for-sale/{slug}/request",
        "/boats-for-sale/{slug}/call",
        "/boats-for-sale/{slug}/sent",
    ),
    Family(
        "listings",
        "/listings/boats",
        "/listings/boats/ad/{id}",
        "/listings/boats/ad/{id}/reply",
        "/listings/boats/ad/{id}/reveal",
        "/listings/boats/ad/{id}/replied",
    ),
    Family(
        "inventory",
        "/inventory",
        "/inventory/unit-{id}",
        "/inventory/unit-{id}/inquiry",
        "/inventory/unit-{id}/number",
        "/inventory/unit-{id}/received",
    ),
    Family("browse", "/b/browse", "/b/{id}", "/b/{id}/msg", "/b/{id}/tel", "/b/{id}/ok"),
)
SEALED: Final = (
    Family(
        "market-search",
        "/marketplace/search",
        "/marketplace/item/{id}",
        "/marketplace/item/{id}/lead",
        "/marketplace/item/{id}/show-phone",
        "/marketplace/item/{id}/done",
    ),
    Family(
        "english",
        "/en/boats/",
        "/en/boat/{slug}/",
        "/en/boat/{slug}/enquire/",
        "/en/boat/{slug}/telephone/",
        "/en/boat/{slug}/confirmed/",
    ),
    Family("php", "/search.php", "/vessel-{id}.php", "/send-{id}.php", "/dial-{id}.php", "/sent-{id}.php"),
    Family(
        "classifieds",
        "/classifieds/used-boats.html",
        "/classifieds/{slug}.html",
        "/classifieds/post/{slug}.html",
        "/classifieds/unlock/{slug}.html",
        "/classifieds/posted/{slug}.html",
    ),
    Family(
        "yachts",
        "/find/boats-and-yachts",
        "/yachts/{slug}/overview",
        "/yachts/{slug}/ask",
        "/yachts/{slug}/ring",
        "/yachts/{slug}/asked",
    ),
)


def drift_family(seed: int) -> Family:
    """The family of a seed's instances."""
    return draw_family(seed, stream="harbourline:drift", run=RUN, canonical=CANONICAL, pools=(TRAINING, SEALED))


def _pattern(family: Family, place: Place) -> str:
    patterns: dict[Place, str] = {
        "search": family.search,
        "detail": family.detail,
        "lead": family.lead,
        "phone": family.phone,
        "thanks": family.thanks,
    }
    return patterns[place]


@lru_cache(maxsize=32)
def _expressions(family: Family) -> tuple[tuple[Place, re.Pattern[str]], ...]:
    places: tuple[Place, ...] = ("search", "detail", "lead", "phone", "thanks")
    return tuple((place, re.compile(expression_of(_pattern(family, place)))) for place in places)
