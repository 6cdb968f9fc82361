"""Connect a command to its site: a bundled one, started for it, or one that runs elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agents.envs.connect import connect, keeps_contract
from agents.envs.environment import Environment
from agents.envs.foreign.dialect import Dialect
from agents.envs.leases import with_lease
from agents.envs.miniwob.tabs import Tabs
from agents.envs.pool import PoolCommand, pooled_site
from agents.envs.provider import Site, local_site, site_at
from agents.envs.sandbox import PORT, DaytonaAccount, Sandbox, daytona_site

from ..errors import NoSite
from ..house import House
from ..settings import Settings
from .leases import DatabaseLeases, this_process
from .miniwob import is_miniwob, open_task


@dataclass(frozen=True, slots=True)
class Where:
    """Location of a site: an address, an existing Daytona sandbox, or a command of which a pool starts processes.

    `admin_url` and `admin_port` are None if pages and admin API share an address. At most `processes` of a pool run at
    a time.
    """

    url: str | None = None
    admin_url: str | None = None
    sandbox: str | None = None
    port: int = PORT
    admin_port: int | None = None
    pool: PoolCommand | None = None
    processes: int = 1


ANEW = Where()
"""No location: a bundled site is started for the command."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A running site and its environment. `tabs` are the browser tabs that executors of MiniWoB++ need.

    `dialect` is how the site is spoken to; None if it keeps our own contract.
    """

    site: Site
    environment: Environment
    tabs: Tabs | None = None
    dialect: Dialect | None = None

    @property
    def is_ours(self) -> bool:
        """True if the site was started for this command."""
        return self.site.pid is not None or self.tabs is not None


@contextmanager
def placed_at(house: House, name: str, where: Where = ANEW, dialect: Dialect | None = None) -> Iterator[Placed]:
    """Start or connect to a site. A single-instance site is leased through the project's database.

    Without a dialect, an address that does not keep our contract gets the tolerant client.
    Raises UnknownSite, NoSite, BadSiteUrl, SandboxFailed; for `miniwob.<task>` what miniwob.open_task raises.
    """
    if where == ANEW and is_miniwob(name):
        with open_task(name, house.settings.browser) as (miniwob, tabs):
            yield Placed(Site(name, tabs.origin, tabs.origin, ""), miniwob, tabs)
        return
    if where.pool is not None:
        with pooled_site(name, where.pool, dialect or Dialect(), processes=where.processes) as pool:
            yield Placed(Site(name, pool.admin_url, pool.admin_url, ""), pool, dialect=dialect)
        return
    running = local_site(name) if where == ANEW else site_elsewhere(house.settings, name, where)
    with running as site:
        spoken = dialect or (None if where == ANEW or keeps_contract(site) else Dialect())
        with connect(site, spoken) as environment:
            if spoken is None or not spoken.one_instance:
                yield Placed(site, environment, dialect=spoken)
            else:
                leased = with_lease(environment, DatabaseLeases(house.engine, this_process()))
                yield Placed(site, leased, dialect=spoken)


@contextmanager
def site_elsewhere(settings: Settings, name: str, where: Where) -> Iterator[Site]:
    """Connect to a site that runs elsewhere until the block ends. Raises NoSite, BadSiteUrl, SandboxFailed."""
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


def account_of(settings: Settings) -> DaytonaAccount:
    """The configured Daytona account. Raises NoSite."""
    if settings.daytona_key is None:
        raise NoSite(actual="FLYWHEEL_DAYTONA_KEY is not set", expected="the key of the sandbox's owner in it")
    return DaytonaAccount(settings.daytona_key.get_secret_value(), settings.daytona_url, settings.daytona_target)
