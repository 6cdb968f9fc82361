"""Which site a command plays on: one of ours as a child process, or one that runs and is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from agents.envs.provider import Site, local_site, site_at

from ..settings import Settings

Url = Annotated[str | None, typer.Option(help="A site that already runs: its page address.")]
AdminUrl = Annotated[str | None, typer.Option(help="Its admin address; the token is in FLYWHEEL_ENV_ADMIN_TOKEN.")]


@contextmanager
def site_for(settings: Settings, name: str, url: str | None, admin_url: str | None) -> Iterator[Site]:
    """The site that runs there, or one of ours started for as long as it is needed."""
    if url is None and admin_url is None:
        with local_site(name) as local:
            yield local
        return
    token = settings.env_admin_token
    if url is None or admin_url is None or token is None:
        raise typer.BadParameter("a running site needs --url, --admin-url and FLYWHEEL_ENV_ADMIN_TOKEN")
    yield site_at(name, url=url, admin_url=admin_url, admin_token=token.get_secret_value())
