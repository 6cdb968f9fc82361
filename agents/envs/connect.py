"""From a site to the Environment over it: our own client, or that of its dialect."""

from __future__ import annotations

from .clients.client import EnvClient
from .foreign.client import ForeignClient
from .foreign.dialect import Dialect
from .provider import Site


def connect(site: Site, dialect: Dialect | None = None) -> EnvClient | ForeignClient:
    """A site's Environment, with the headers of whatever stands before it; without a dialect it keeps the contract."""
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
