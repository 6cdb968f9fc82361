"""Leases on the database, among processes that may be killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from agents.envs.errors import LeaseLost, LeaseTaken
from api.environments.leases import DatabaseLeases
from tests.conftest import Database

ROOT = Path(__file__).parents[2]
HOLDING = """
import sys
from api.environments.leases import DatabaseLeases
from eventlog.database import open_engine
with DatabaseLeases(open_engine(sys.argv[1]), "another process")("site x"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def another_process(database: Database) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDING, database.app_url]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            yield child
        finally:
            child.kill()


def test_another_process_waits_its_turn_and_is_told_who_holds_it(
    empty_database: Database, empty_engine: Engine
) -> None:
    with another_process(empty_database) as child:
        told = r"site x was not free within 0\.05 s.*'another process on site x'"
        with pytest.raises(LeaseTaken, match=told), DatabaseLeases(empty_engine, "me", 0.05)("site x"):
            pass
        with DatabaseLeases(empty_engine, "me", 0.05)("site y") as check:
            check()
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
        with DatabaseLeases(empty_engine, "me", 60)("site x") as check:
            check()


def test_a_holder_that_is_killed_frees_the_key(empty_database: Database, empty_engine: Engine) -> None:
    with another_process(empty_database) as child:
        child.send_signal(signal.SIGKILL)
        with DatabaseLeases(empty_engine, "me", 60)("site x") as check:
            check()


def test_threads_of_one_process_exclude_each_other_too(empty_engine: Engine) -> None:
    leases = DatabaseLeases(empty_engine, "me", 0.05)
    with leases("site x"), pytest.raises(LeaseTaken), leases("site x"):
        pass
    with pytest.raises(ZeroDivisionError), leases("site x"):
        raise ZeroDivisionError
    with DatabaseLeases(empty_engine, "me", 60)("site x"):
        pass


def test_a_lease_whose_session_ended_is_known_to_be_lost(empty_engine: Engine) -> None:
    held = DatabaseLeases(empty_engine, "me", 0.05)("site x")
    check = held.__enter__()
    check()
    with empty_engine.connect() as connection:
        ended = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'me on%'")
        assert connection.execute(ended).scalars().all() == [True]
    with pytest.raises(LeaseLost, match="session ended"):
        check()
    with pytest.raises(LeaseLost):
        held.__exit__(None, None, None)


def test_leases_keep_no_connection_of_the_pool(empty_engine: Engine) -> None:
    leases = DatabaseLeases(empty_engine, "me", 0.05)
    with leases("a"), leases("b"), leases("c"):
        assert empty_engine.pool.checkedout() == 0  # type: ignore[attr-defined]
