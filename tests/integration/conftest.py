"""Fixtures: the REST application and a caller of it, and workers in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.app import create_app
from api.house import House
from api.tokens import issue
from tests.conftest import Database
from tests.shared import HOLDER, SharedDatabases

COMMAND = [sys.executable, "-c", "from api.cli.main import main; main()", "worker", "--json"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def application() -> FastAPI:
    """The REST application of a module; each test's `client` puts its own house behind it."""
    app = create_app(cast("House", None))
    app.state.stream_seconds = 0  # a test client waits for the whole answer
    return app


@pytest.fixture
def client(application: FastAPI, house: House, shared_databases: SharedDatabases) -> Iterator[TestClient]:
    """A caller with a token, over the test's `house`. Unhandled errors come back as answers."""
    token = shared_databases.token(house.engine) or issue(house.store, HOLDER, "test", "operate")
    application.state.house = house
    headers = {"Authorization": f"Bearer {token}"}
    with TestClient(application, headers=headers, raise_server_exceptions=False) as caller:
        yield caller


@pytest.fixture
def start(empty_database: Database, tmp_path: Path) -> Iterator[Start]:
    """A function that starts a worker with a home of its own; what is left of them is killed at the end."""
    urls = {"FLYWHEEL_DATABASE_URL": empty_database.app_url, "FLYWHEEL_OWNER_URL": empty_database.owner_url}
    children: list[subprocess.Popen[str]] = []

    def begin(*options: str, **more: str) -> subprocess.Popen[str]:
        home = tmp_path / f"home{len(children)}"
        told = {**os.environ, **urls, "FLYWHEEL_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2]), **more}
        pipe = subprocess.PIPE
        children.append(subprocess.Popen([*COMMAND, *options], env=told, stdout=pipe, stderr=pipe, text=True))
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        child.communicate(timeout=60)
