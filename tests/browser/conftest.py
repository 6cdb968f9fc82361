"""Fixtures: one Chromium a session, a context for each visit; and a site of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.executors.browser import Chromium
from api.settings import read_settings
from tests.browser.site import OwnSite, own_site


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    with Chromium(read_settings().browser) as started:
        yield started


@pytest.fixture
def own() -> Iterator[OwnSite]:
    with own_site() as site:
        yield site
