"""Harbourline's addresses by seed: two pools of families that share only the canonical one.

Seeds below 10 000 draw from the training pool, the others from the sealed one. In each run of four seeds one is
canonical, and neighbours never share a family.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast

from ..drifting import AddressFamily, draw_family

RUN: Final = 4

Place = Literal["search", "detail", "lead", "phone", "thanks"]


@dataclass(frozen=True, slots=True)
class Family(AddressFamily):
    """One family of a site's addresses; `{slug}` and `{id}` stand for the boat."""

    search: str
    detail: str
    lead: str
    phone: str
    thanks: str

    def path(self, place: Place, *, slug: str = "", number: int = 0) -> str:
        """Address of a place, from the instance's root; a boat's place needs its slug and its id."""
        return self.patterns[place].format(slug=slug, id=number)

    def locate(self, path: str) -> tuple[Place, str] | None:
        """The place at an address, and the slug or id in it; a slash at the end is ignored."""
        found = self.find_place(path)
        return None if found is None else (cast("Place", found[0]), next(iter(found[1].values()), ""))


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
