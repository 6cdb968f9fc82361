"""Addresses within one instance that all bundled sites share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class InstanceAddresses:
    """Addresses of one instance's pages; every link, form and redirect is built here and stays inside its prefix.

    `templates` are those of the site's pages.
    """

    templates: ClassVar[Environment]

    prefix: str

    @property
    def home(self) -> str:
        """Address of the first page."""
        return f"{self.prefix}/"

    def text(self, name: str) -> str:
        """Address of a page that never drifts, such as `about` or `rules`."""
        return f"{self.prefix}/{name}"
