"""Addresses within one instance, as far as they are alike on every site of ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstanceAddresses:
    """The addresses of one instance's pages; every link, form and redirect is made here and stays inside its prefix."""

    prefix: str

    @property
    def home(self) -> str:
        """The first page."""
        return f"{self.prefix}/"

    def text(self, name: str) -> str:
        """A page that never drifts, such as `about` or `rules`."""
        return f"{self.prefix}/{name}"
