"""Register an environment: where it runs, how it speaks and which suite is its own, once everything was checked."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from agents.envs.addresses import without_secrets
from agents.envs.connect import connect
from agents.envs.contract import TaskText
from agents.envs.environment import Environment
from agents.envs.errors import OtherSite
from agents.envs.foreign.dialect import Dialect
from agents.envs.sandbox import PORT
from agents.executors.kits import Kit, kit_of
from agents.suites.in_log import VersionedSuite, find_suite, next_version
from agents.suites.suite_file import read_suite
from agents.suites.tasks import tasks_on
from eventlog.chain import canonical
from eventlog.events import EnvironmentRegistered, RegisteredPool
from eventlog.store import Append, Rejected

from ..errors import NotRegistered
from ..house import House
from .connect import Where, dialect_spoken, is_kept_apart, open_kit, pool_of, site_elsewhere
from .suites import is_suite_file

STREAM: Final = "environment/{}"


def register_environment(
    house: House, name: str, where: Where, dialect: Dialect | None, suite: str | None, actor: str
) -> EnvironmentRegistered:
    """Append the registration of an environment that runs elsewhere, with its suite where that is a file.

    The site is asked first: it has to answer by this name and grade the tasks of the suite. Nothing is recorded
    otherwise. Raises NotRegistered, NoSite, BadSiteUrl, OtherSite, UnknownEnvironment, LibraryMissing,
    EnvironmentFailure, and what finding a suite raises.
    """
    _refuse_secrets(name, where, dialect)
    tasks = _tasks_graded(house, name, where, dialect)
    views = house.views()
    versioned, request = None, None
    if suite is not None:
        file = Path(suite) if is_suite_file(suite) else None
        found = find_suite(house.store, views, suite) if file is None else VersionedSuite(read_suite(file))
        tasks_on(found.suite, name, tasks, file)
        versioned, request = (found, None) if found.version else next_version(views, found.suite, actor)
    event = EnvironmentRegistered(
        environment=name,
        url=where.url,
        admin_url=where.admin_url,
        sandbox=where.sandbox,
        port=where.port if where.sandbox is not None and where.port != PORT else None,
        admin_port=where.admin_port,
        token=where.token,
        dialect=None if dialect is None else canonical(dialect.model_dump(mode="json")).decode(),
        suite=None if versioned is None else versioned.suite.name,
        pool=_pool_recorded(where),
    )
    own = Append(STREAM.format(name), (event,), actor)
    result = house.store.append_together([own] if request is None else [request, own])
    if isinstance(result, Rejected):
        raise NotRegistered(name=name, actual="its suite changed meanwhile", expected="nobody else who brings it in")
    return event


def _tasks_graded(house: House, name: str, where: Where, dialect: Dialect | None) -> tuple[TaskText, ...]:
    """The tasks that a site grades, asked of the site. Raises OtherSite if it answers by another name."""
    kit = kit_of(name)
    if kit is not None and kit.open_graded is not None:
        return _tasks_of_kit(house, kit, name, where, dialect)
    with ExitStack() as stack:
        environment: Environment
        if where.pool is not None:
            environment = stack.enter_context(pool_of(name, where, dialect))
        else:
            site = stack.enter_context(site_elsewhere(house.settings, name, where))
            environment = connect(site, dialect_spoken(site, dialect))
            stack.enter_context(environment)
        health = environment.health()
        if health.site != name:
            raise OtherSite(url=environment.admin_url, actual=health.site, expected=name)
        return health.tasks


def _tasks_of_kit(house: House, kit: Kit, name: str, where: Where, dialect: Dialect | None) -> tuple[TaskText, ...]:
    """The tasks of an environment that is no web site, which is asked in this process: it has no admin token.

    Raises NotRegistered for what only a site has, and what opening it raises.
    """
    for_sites = {
        "--admin-url": where.admin_url,
        "--sandbox": where.sandbox,
        "--command": where.pool,
        "--dialect": dialect,
    }
    given = [option for option, value in for_sites.items() if value is not None]
    if given:
        expected = "--url alone for a server, and no place for what runs in this process"
        raise NotRegistered(name=name, actual=f"it is no web site, and {given[0]} is for sites", expected=expected)
    with open_kit(house, kit, name, where.url) as inside:
        return inside.environment.health().tasks


def _pool_recorded(where: Where) -> RegisteredPool | None:
    if where.pool is None:
        return None
    variables = tuple(sorted(where.pool.variables.items()))
    return RegisteredPool(words=where.pool.words, variables=variables, processes=where.processes)


def _refuse_secrets(name: str, where: Where, dialect: Dialect | None) -> None:
    """Raise NotRegistered if an address or a header holds a secret, because the log is read by many."""
    for address in (where.url, where.admin_url):
        if address is not None and without_secrets(address) != address:
            raise NotRegistered(
                name=name,
                actual="its address holds a user, a password or a query",
                expected="an address alone; headers of the dialect may name variables that hold secrets",
            )
    for header, value in (dialect.headers if dialect is not None else {}).items():
        if not is_kept_apart(value):
            raise NotRegistered(
                name=name,
                actual=f"the value of the header {header} stands in its dialect",
                expected="the name of a variable that holds it, such as $FLYWHEEL_ENV_HEADER",
            )
