"""Connecting to a site: our own client, or a client for the site's dialect."""

from __future__ import annotations

from .clients.client import EnvClient
from .errors import ContractBroken
from .foreign.client import ForeignClient
from .foreign.dialect import Dialect
from .provider import Site


def connect(site: Site, dialect: Dialect | None = None) -> EnvClient | ForeignClient:
    """Client for a site, with its proxy headers; without a dialect, the site must keep the contract."""
    if dialect is None:
        return EnvClient(
            site.admin_url,
            site.admin_token,
            extra_headers=site.admin_headers,
            page_headers=site.page_headers,
            page_url=site.url,
        )
    return ForeignClient(
        site.admin_url,
        site.admin_token,
        dialect,
        extra_headers=site.admin_headers,
        page_headers=site.page_headers,
        page_url=site.url,
    )


def keeps_contract(site: Site) -> bool:
    """True if the health of a site is that of our own contract. Raises EnvironmentDown, EnvironmentRefused."""
    with connect(site) as environment:
        try:
            environment.health()
        except ContractBroken:
            return False
    return True
