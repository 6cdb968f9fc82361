"""Known solutions of our sites' tasks, by site, for probes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..probing.target import Solve
from .helpdesk.solve import solve as solve_helpdesk
from .marketplace.solve import solve as solve_marketplace

SOLVERS: Final[Mapping[str, Solve]] = MappingProxyType({"helpdesk": solve_helpdesk, "marketplace": solve_marketplace})
"""The solution of each site."""
