"""Sites that run elsewhere, from what a command was told and the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agents.envs.provider import Site, site_at
from agents.envs.sandbox import PORT, Account, Sandbox, daytona_site

from .errors import NoSite
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Where:
    """Where a site is: at an address, or in a Daytona sandbox that exists.

    `admin_url` and `admin_port` are left out where pages and admin surface are one.
    """

    url: str | None = None
    admin_url: str | None = None
    sandbox: str | None = None
    port: int = PORT
    admin_port: int | None = None


@contextmanager
def site_elsewhere(settings: Settings, name: str, where: Where) -> Iterator[Site]:
    """A site that runs elsewhere, for as long as the block lasts. Raises NoSite, BadSiteUrl, SandboxFailed."""
    token = settings.env_admin_token
    if token is None:
        raise NoSite(actual="FLYWHEEL_ENV_ADMIN_TOKEN is not set", expected="the site's admin token in it")
    if where.url is not None and where.sandbox is None:
        admin_url = where.admin_url or where.url
        yield site_at(name, url=where.url, admin_url=admin_url, admin_token=token.get_secret_value())
    elif where.sandbox is not None and where.url is None:
        sandbox = Sandbox(sandbox_id=where.sandbox, port=where.port, admin_port=where.admin_port)
        with daytona_site(name, sandbox, account_of(settings), token.get_secret_value()) as site:
            yield site
    else:
        raise NoSite(actual="an address and a sandbox" if where.url else "neither", expected="--url or --sandbox")


def account_of(settings: Settings) -> Account:
    """Whose sandboxes they are. Raises NoSite."""
    if settings.daytona_key is None:
        raise NoSite(actual="FLYWHEEL_DAYTONA_KEY is not set", expected="the key of the sandbox's owner in it")
    return Account(settings.daytona_key.get_secret_value(), settings.daytona_url, settings.daytona_target)
