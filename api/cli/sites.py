"""Which site a command plays on: one of ours started for it, or one that already runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from agents.envs.client import EnvClient
from agents.envs.provider import Site, local_site, site_at

from ..house import House

Url = Annotated[str | None, typer.Option(help="A site that already runs: its page address.")]
AdminUrl = Annotated[str | None, typer.Option(help="Its admin address; the token is in FLYWHEEL_ENV_ADMIN_TOKEN.")]


@contextmanager
def site_of(house: House, name: str, url: str | None, admin_url: str | None) -> Iterator[Site]:
    """The site that a command names. Raises BadParameter where only half of a running one is told."""
    if url is None and admin_url is None:
        with local_site(name) as local:
            yield local
        return
    token = house.settings.env_admin_token
    if url is None or admin_url is None or token is None:
        raise typer.BadParameter("a running site needs --url, --admin-url and FLYWHEEL_ENV_ADMIN_TOKEN")
    yield site_at(name, url=url, admin_url=admin_url, admin_token=token.get_secret_value())


@contextmanager
def client_of(house: House, name: str, url: str | None, admin_url: str | None) -> Iterator[EnvClient]:
    """A client of that site's admin surface."""
    with (
        site_of(house, name, url, admin_url) as site,
        EnvClient(site.admin_url, site.admin_token) as client,
    ):
        yield client
