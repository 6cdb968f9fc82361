"""Lanternpost's templates, and the addresses within one of its instances."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ..addresses import InstanceAddresses
from ..markup import site_templates
from .drift import Family, Place
from .mailbox import Ticket

TEMPLATES: Final = site_templates(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Addresses(InstanceAddresses):
    """The addresses of one instance of Lanternpost."""

    family: Family
    templates: ClassVar = TEMPLATES

    def of(self, place: Place, ticket: Ticket | None = None) -> str:
        """Address of the inbox, of a ticket's page, or of a form's target."""
        return self.prefix + self.family.path(place, 0 if ticket is None else ticket.number)
