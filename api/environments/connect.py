"""Connect a command to its site: a bundled one, started for it, or one that runs elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from agents.envs.connect import connect, keeps_contract
from agents.envs.environment import Environment
from agents.envs.foreign.dialect import Dialect
from agents.envs.leases import with_lease
from agents.envs.pool import PoolCommand, PooledSite, pooled_site
from agents.envs.provider import Site, local_site, site_at
from agents.envs.sandbox import PORT, DaytonaAccount, Sandbox, daytona_site
from agents.executors.kits import Inside, Kit, kit_of
from agents.suites.errors import NoSuite
from agents.suites.in_log import suite_for
from eventlog.events import RegisteredPool
from projections.suites import REGISTRATIONS, RegistrationState

from ..errors import NoSite
from ..house import House
from ..settings import Settings, read_secret
from .leases import DatabaseLeases, this_process

TOKEN: Final = "FLYWHEEL_ENV_ADMIN_TOKEN"  # noqa: S105 the name of a variable
"""The variable of a site's admin token, unless its registration names another."""

_SECRET: Final = "$FLYWHEEL_ENV_"  # noqa: S105 how such a name begins
"""How the value of a header begins that is kept in a variable."""


@dataclass(frozen=True, slots=True)
class Where:
    """Location of a site: an address, an existing Daytona sandbox, or a command of which a pool starts processes.

    `admin_url` and `admin_port` are None if pages and admin API share an address. `token` names the variable of the
    admin token. At most `processes` of a pool run at a time.
    """

    url: str | None = None
    admin_url: str | None = None
    sandbox: str | None = None
    port: int = PORT
    admin_port: int | None = None
    token: str = TOKEN
    pool: PoolCommand | None = None
    processes: int = 1


ANEW = Where()
"""No location: a bundled site is started for the command."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A running site and its environment. `inside` is what an environment in this process can do besides.

    `dialect` is how the site is spoken to; None if it keeps our own contract.
    """

    site: Site
    environment: Environment
    inside: Inside | None = None
    dialect: Dialect | None = None

    @property
    def is_ours(self) -> bool:
        """True if the site was started for this command."""
        return self.site.pid is not None or (self.inside is not None and self.inside.is_started)


@contextmanager
def placed_at(house: House, name: str, where: Where = ANEW, dialect: Dialect | None = None) -> Iterator[Placed]:
    """Start or connect to a site. A single-instance site is leased through the project's database.

    Without a location, a registered site is where its registration says, and speaks the dialect that it names. Without
    a dialect, an address that does not keep our contract gets the tolerant client.
    Raises UnknownSite, NoSite, BadSiteUrl, SandboxFailed; for an environment of a kit what opening it raises.
    """
    if where == ANEW and (registered := house.views().get(REGISTRATIONS, name)) is not None:
        where, dialect = where_registered(registered), dialect or dialect_registered(registered)
    kit = kit_of(name)
    if kit is not None and (where == ANEW or kit.open_graded is not None):
        with open_kit(house, kit, name, where.url) as inside:
            yield Placed(Site(name, inside.address, inside.address, ""), inside.environment, inside)
        return
    if where.pool is not None:
        with pool_of(name, where, dialect) as pool:
            yield Placed(Site(name, pool.admin_url, pool.admin_url, ""), pool, dialect=dialect)
        return
    running = local_site(name) if where == ANEW else site_elsewhere(house.settings, name, where)
    with running as site:
        spoken = with_secrets(dialect) if where == ANEW else dialect_spoken(site, dialect)
        with connect(site, spoken) as environment:
            if spoken is None or not spoken.one_instance:
                yield Placed(site, environment, dialect=spoken)
            else:
                leased = with_lease(environment, DatabaseLeases(house.engine, this_process()))
                yield Placed(site, leased, dialect=spoken)


def pool_of(name: str, where: Where, dialect: Dialect | None) -> AbstractContextManager[PooledSite]:
    """The pool of a location, which ends with the block. Raises NoSite where it has none, or a variable is not set."""
    if where.pool is None:
        raise NoSite(actual="no command", expected="the command line of a pool")
    variables = {key: _value(text) for key, text in where.pool.variables.items()}
    command = replace(where.pool, variables=variables)
    return pooled_site(name, command, with_secrets(dialect) or Dialect(), processes=where.processes)


def open_kit(house: House, kit: Kit, name: str, url: str | None) -> AbstractContextManager[Inside]:
    """Open an environment of a kit, graded by the threshold of its suite in the log where the kit takes one."""
    if kit.open_graded is None:
        return kit.open_inside(name, house.settings.browser)
    try:
        tasks = suite_for(house.store, house.views(), name).suite.tasks
    except NoSuite:
        tasks = ()
    return kit.open_graded(name, url, next((task.threshold_micro for task in tasks if task.graded_as == name), None))


@contextmanager
def site_elsewhere(settings: Settings, name: str, where: Where) -> Iterator[Site]:
    """Connect to a site that runs elsewhere until the block ends. Raises NoSite, BadSiteUrl, SandboxFailed."""
    token = settings.env_admin_token if where.token == TOKEN else read_secret(where.token)
    if token is None:
        raise NoSite(actual=f"{where.token} is not set", expected="the site's admin token in it")
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


def where_registered(state: RegistrationState) -> Where:
    """Address and kind of a registered environment."""
    where = Where(state.url, state.admin_url, state.sandbox, state.port or PORT, state.admin_port, state.token)
    if state.pool is None:
        return where
    pool = RegisteredPool.model_validate_json(msgspec.json.encode(state.pool))
    return replace(where, pool=PoolCommand(pool.words, dict(pool.variables)), processes=pool.processes)


def dialect_registered(state: RegistrationState) -> Dialect | None:
    """The dialect of a registration, if it has one."""
    return None if state.dialect is None else Dialect.model_validate_json(state.dialect)


def dialect_spoken(site: Site, dialect: Dialect | None) -> Dialect | None:
    """The dialect of a site elsewhere, with its secrets. None is our own contract, which the site is found to keep.

    Without a dialect, a site that does not keep our contract is spoken to by the tolerant client. Raises NoSite,
    EnvironmentDown, EnvironmentRefused.
    """
    return with_secrets(dialect) or (None if keeps_contract(site) else Dialect())


def with_secrets(dialect: Dialect | None) -> Dialect | None:
    """A dialect whose headers have the values of the variables that they name. Raises NoSite where one is not set."""
    if dialect is None or not dialect.headers:
        return dialect
    return dialect.model_copy(update={"headers": {name: _value(each) for name, each in dialect.headers.items()}})


def is_kept_apart(value: str) -> bool:
    """True if the value of a header names a variable that holds it."""
    return value.startswith(_SECRET)


def _value(given: str) -> str:
    if not is_kept_apart(given):
        return given
    variable = given.removeprefix("$")
    found = read_secret(variable)
    if found is None:
        raise NoSite(actual=f"{variable} is not set", expected="the value of a header in it, as the dialect says")
    return found.get_secret_value()
