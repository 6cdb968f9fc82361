"""Harbourline's templates, and the addresses within one of its instances."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ..addresses import InstanceAddresses
from ..markup import site_templates
from .catalog import Boat
from .drift import Family, Place
from .search import SELLER_WORDS

TEMPLATES: Final = site_templates(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Addresses(InstanceAddresses):
    """The addresses of one instance of Harbourline."""

    family: Family
    templates: ClassVar = TEMPLATES

    @property
    def search(self) -> str:
        """Address of the boats page."""
        return self.prefix + self.family.path("search")

    def offer_address(self, kind: str, boat: Boat, *parts: str) -> str:
        """Address of a dealer's offer for a boat, such as `papers`; these never drift."""
        return "/".join((self.prefix, kind, str(boat.id), *parts))

    def of(self, place: Place, boat: Boat) -> str:
        """Address of a boat's page, or of one of its forms' targets."""
        return self.prefix + self.family.path(place, slug=boat.slug, number=boat.id)


def format_price(price: int) -> str:
    """A price in dollars with thousands separators, such as `$24,500`."""
    return f"${price:,}"


TEMPLATES.filters.update(price=format_price, seller=SELLER_WORDS.__getitem__)
