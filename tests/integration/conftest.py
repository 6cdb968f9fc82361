"""Fixtures: workers in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Database

COMMAND = [sys.executable, "-c", "from api.cli.main import main; main()", "worker", "--json"]
Start = Callable[..., "subprocess.Popen[str]"]


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
        child.communicate()
