"""Fixtures: one Chromium a session, a context for each visit; both sites; and a site of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from agents.executors.browser import Chromium
from api.settings import read_settings
from tests.browser.site import OwnSite, own_site


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    with Chromium(read_settings().browser) as started:
        yield started


@pytest.fixture(scope="session")
def marketplace() -> Iterator[EnvClient]:
    with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as client:
        yield client


@pytest.fixture(scope="session")
def helpdesk() -> Iterator[EnvClient]:
    with local_site("helpdesk") as site, EnvClient(site.admin_url, site.admin_token) as client:
        yield client


@pytest.fixture
def own() -> Iterator[OwnSite]:
    with own_site() as site:
        yield site
