"""Ctrl-C in a command, as a process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from api.cli.interrupts import INTERRUPTED
from api.house import House
from tests.admitted import admitted
from tests.conftest import Database
from tests.sites import SharedSite

PROGRAM = """import hashlib, sys, time
from api.cli import main
class App:
    def main(self, **_):
        print("begun", flush=True)
        {work}
main.app = App()
main.main([])
"""
WORKING = """import asyncio, time
from api.sweeps.worker import stop_at_signals
async def work():
    stop_at_signals(asyncio.Event(), lambda notice: print(notice.kind, flush=True))
    print("begun", flush=True)
    await asyncio.to_thread(time.sleep, 60)
asyncio.run(work())
"""
IN_A_LIBRARY = "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"
"""Work that Python cannot interrupt."""

GOT_BY_ANOTHER_THREAD = (
    "import os, signal, threading; "
    "threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)).start(); "
    "os.read(os.pipe()[0], 1)"
)
"""A wait that no signal ends which another thread gets."""

ENOUGH_S = 1.0


@contextmanager
def begun(program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has written its first line."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program, *words], text=True, **pipes) as child:  # type: ignore[call-overload]
        try:
            assert child.stdout is not None
            assert child.stdout.readline()
            yield child
        finally:
            child.kill()


def test_the_first_ctrl_c_is_answered_at_once_and_the_second_ends_the_process() -> None:
    with begun(PROGRAM.format(work=IN_A_LIBRARY)) as child:
        assert child.stderr is not None
        child.send_signal(signal.SIGINT)
        since = time.monotonic()
        assert "interrupted" in child.stderr.readline()
        assert time.monotonic() - since < ENOUGH_S
        child.send_signal(signal.SIGINT)
        assert child.wait(ENOUGH_S) == INTERRUPTED


def test_a_second_ctrl_c_while_an_interrupted_command_ends_is_answered_in_the_same_way() -> None:
    again = "(signal.raise_signal(signal.SIGINT), time.sleep(60))"
    ending = f"import atexit, signal; atexit.register(lambda: {again}); signal.raise_signal(signal.SIGINT)"
    with begun(PROGRAM.format(work=ending)) as child:
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said.count("interrupted"), "KeyboardInterrupt" in said) == (INTERRUPTED, 1, False)


def test_an_interrupt_that_another_thread_gets_ends_a_wait_of_the_main_thread() -> None:
    with begun(PROGRAM.format(work=GOT_BY_ANOTHER_THREAD)) as child:
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said.count("interrupted")) == (INTERRUPTED, 1)


def test_a_worker_ends_its_runs_at_the_first_ctrl_c_and_itself_at_the_second() -> None:
    with begun(WORKING) as child:
        assert child.stdout is not None
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "stopping\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(ENOUGH_S) == -signal.SIGINT


def test_an_interrupt_that_python_wraps_in_another_error_leaves_no_traceback() -> None:
    wrapped = "exec('try: time.sleep(60)\\nexcept KeyboardInterrupt as error: raise RuntimeError() from error')"
    with begun(PROGRAM.format(work=wrapped)) as child:
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said.count("interrupted"), "Traceback" in said) == (INTERRUPTED, 1, False)


def test_an_interrupted_command_says_so_once_and_has_an_exit_code_of_its_own(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", database.app_url)
    program = "from api.cli.main import main; main()"
    with begun(program, "log", "tail", "--follow") as child:
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said.count("interrupted")) == (INTERRUPTED, 1)
    assert "Traceback" not in said


def test_a_sweep_under_way_says_within_a_second_that_it_was_interrupted(
    shared_site: SharedSite, empty_database: Database, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = shared_site("marketplace")
    admitted(empty_house.store, "marketplace")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    at = ("--url", site.url, "--admin-url", site.admin_url, "--seeds", "1-200", "--max-parallel", "1")
    words = [sys.executable, "-c", "from api.cli.main import main; main()", "rollout", "sweep", "marketplace", *at]
    with subprocess.Popen(words, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        try:
            while empty_house.store.counts().get("RunFinished", 0) < 1:
                assert child.poll() is None
                time.sleep(0.05)
            child.send_signal(signal.SIGINT)
            since = time.monotonic()
            assert child.stderr is not None
            assert any("interrupted" in line for line in child.stderr)
            assert time.monotonic() - since < ENOUGH_S
            assert child.wait(30) == INTERRUPTED
        finally:
            child.kill()
    assert empty_house.store.counts()["RunFinished"] < 200


ENDING = """import signal
from api.cli import main
class App:
    def main(self, **_):
        return 3
main.app, left = App(), main.leave_to_watch
def leave():
    main.leave_to_watch = left
    signal.raise_signal(signal.SIGINT)
main.leave_to_watch = leave
main.main([])
"""


def test_a_ctrl_c_just_after_a_command_has_ended_leaves_its_exit_code() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDING], stderr=subprocess.PIPE, text=True) as child:
        _, said = child.communicate(timeout=30)
    assert (child.returncode, "Traceback" in said) == (3, False)
