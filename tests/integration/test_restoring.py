"""Backup and restore as docs/deploying.md says: a dump, the keys, another database, and a log that verifies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from api.cli.main import run_command
from api.embedded.binaries import binaries_folder
from api.house import House
from eventlog.blobs import Blob
from eventlog.database import open_engine
from eventlog.errors import BlobErased
from eventlog.store import Append, Committed
from projections.runs import RUNS
from tests.conftest import Database, house_on
from tests.golden.test_golden_samples import sample

PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"
RESTORED = f"fw_restored_{os.getpid()}"
SECRET = Blob("text/plain", b"what a person typed")


@pytest.fixture
def superuser(database: Database, superuser_url: str) -> str:
    """Where a superuser connects to the test's database."""
    name = make_url(database.owner_url).database
    return make_url(superuser_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def elsewhere(database: Database, run_sql: Callable[[str], None]) -> Iterator[Database]:
    """An empty database of the same server, whose keys are elsewhere."""
    run_sql(f'CREATE DATABASE "{RESTORED}"')
    run_sql(f'GRANT CREATE ON DATABASE "{RESTORED}" TO {database.owner_role}')  # as deploy/roles.sql does
    yield database.named(RESTORED)
    run_sql(f'DROP DATABASE "{RESTORED}" WITH (FORCE)')


def program(name: str, url: str, *options: str) -> None:
    place = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    command = [str(binaries_folder() / "bin" / name), *options, "--dbname", place]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def options_of(name: str) -> list[str]:
    """The options with which the page calls a program, but for files and places."""
    found = re.search(rf"^{name} (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert found is not None, name
    return re.findall(r"--(?!file|dbname)[a-z-]+(?:=\S+)?", found[1])


def test_a_backup_is_restored_into_another_database_with_its_blobs_and_keys(
    house: House,
    database: Database,
    elsewhere: Database,
    superuser: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (address,) = house.blobs.put([SECRET], subject="person-7")
    house.store.append([Append("access", (sample("TokenRevoked"),), "test")])
    runs = house.views().find(RUNS)
    dump = tmp_path / "flywheel.dump"
    program("pg_dump", superuser, *options_of("pg_dump"), f"--file={dump}")
    late = Blob("text/plain", b"put after the dump")
    house.blobs.put([late])
    place = make_url(superuser).set(database=RESTORED).render_as_string(hide_password=False)
    program("pg_restore", place, *options_of("pg_restore"), str(dump))

    engine = open_engine(elsewhere.app_url)
    restored = house_on(engine, elsewhere)
    with pytest.raises(BlobErased):
        restored.blobs.get(address)
    shutil.copytree(database.keys, elsewhere.keys, dirs_exist_ok=True)
    assert restored.blobs.get(address).body == SECRET.body
    assert restored.views().find(RUNS) == runs
    assert restored.store.head() == house.store.head()
    (outcome,) = restored.store.append([Append("access", (sample("TokenRevoked"),), "test")])
    assert isinstance(outcome, Committed)
    engine.dispose()

    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", elsewhere.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", elsewhere.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(elsewhere.keys))
    for command in (["db", "migrate"], ["log", "verify"], ["blobs", "verify"], ["replay"]):
        assert run_command(command) == 0, (command, capsys.readouterr())
