"""Fixtures: one process a session for each of our sites, and logs that are played once and cloned for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import Engine

from agents.envs.clients.client import EnvClient
from agents.envs.provider import Site, local_site
from api.house import House
from eventlog.database import open_engine
from tests.conftest import Database, house_on

SharedSite = Callable[[str], Site]
Record = Callable[[str, str, Callable[[House], None]], str]
HouseFrom = Callable[[str], House]


@pytest.fixture(scope="session")
def shared_site() -> Iterator[SharedSite]:
    """A function that gives one of our sites by name. A test that stops a site or sets its conditions starts its own.

    Tests do not meet: each plays on instances that it makes.
    """
    started: dict[str, Site] = {}
    with ExitStack() as stack:

        def site(name: str) -> Site:
            if name not in started:
                started[name] = stack.enter_context(local_site(name))
            return started[name]

        yield site


@pytest.fixture(scope="session")
def marketplace(shared_site: SharedSite) -> Iterator[EnvClient]:
    """A client of the shared marketplace."""
    site = shared_site("marketplace")
    with EnvClient(site.admin_url, site.admin_token) as client:
        yield client


@pytest.fixture(scope="session")
def helpdesk(shared_site: SharedSite) -> Iterator[EnvClient]:
    """A client of the shared helpdesk."""
    site = shared_site("helpdesk")
    with EnvClient(site.admin_url, site.admin_token) as client:
        yield client


@pytest.fixture(scope="session")
def record(server: Database, run_sql: Callable[[str], None], templates: dict[str, str]) -> Record:
    """A function that plays a log once a session, from another template, as a template that `clone` can clone.

    It takes the new template's name, that of the template it starts from, and what plays, and returns the name.
    """

    def played(kind: str, base: str, play: Callable[[House], None]) -> str:
        if kind not in templates:
            name = f"{templates[base]}_{kind}"
            run_sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            run_sql(f'CREATE DATABASE "{name}" OWNER "{server.owner_role}" TEMPLATE "{templates[base]}"')
            database = server.named(name)
            engine = open_engine(database.app_url)
            try:
                play(house_on(engine, database))
            finally:
                engine.dispose()
            templates[kind] = name
        return kind

    return played


@pytest.fixture
def house_from(clone: Callable[[str], Database]) -> Iterator[HouseFrom]:
    """A function that gives a house on a clone of a template."""
    opened: list[Engine] = []

    def house(kind: str) -> House:
        database = clone(kind)
        opened.append(open_engine(database.app_url))
        return house_on(opened[-1], database)

    yield house
    for engine in opened:
        engine.dispose()
