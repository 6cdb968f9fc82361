"""The sites that can be started by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .helpdesk.app import HELPDESK
from .marketplace.app import MARKETPLACE
from .site import SiteKind

KNOWN: Final[Mapping[str, SiteKind]] = MappingProxyType({kind.name: kind for kind in (MARKETPLACE, HELPDESK)})
