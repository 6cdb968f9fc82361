"""A forked program behaves as one that was started from cold."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.envs.provider import local_site
from tests.forks import ROOT, Cold, Forked

COMMAND = [sys.executable, "-c", "from api.cli.main import main; main()"]
SITE = [sys.executable, "-m", "agents.envs.serve", "marketplace"]
TRAINER = [sys.executable, "-m", "trainer"]
TOKEN = "a token that is long enough"


def words_of(process: int, name: str) -> list[str]:
    return [each.decode() for each in Path(f"/proc/{process}/{name}").read_bytes().split(b"\0") if each]


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def begun_site(**how: object) -> subprocess.Popen[str]:
    """A site that serves, whose standard input ends with ours."""
    pipe = subprocess.PIPE
    site: subprocess.Popen[str] = subprocess.Popen(SITE, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, **how)  # type: ignore[call-overload]
    assert isinstance(site, Forked)
    assert site.stdin is not None
    assert site.stdout is not None
    site.stdin.write(f"{TOKEN}\n")
    site.stdin.flush()
    assert json.loads(site.stdout.readline())["site"] == "marketplace"
    return site


@pytest.mark.parametrize("words", [["--help"], ["env", "serve", "no-such-site"]])
def test_a_command_says_and_ends_as_it_does_from_a_cold_start(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forked = subprocess.run([*COMMAND, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    monkeypatch.setattr(subprocess, "Popen", Cold)
    cold = subprocess.run([*COMMAND, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_a_forked_process_is_a_child_that_shows_its_own_arguments_and_environment() -> None:
    with begun_site(env={"PATH": os.environ["PATH"], "FLYWHEEL_HOME": "/a/home"}) as site:
        assert parent_of(site.pid) == os.getpid()
        assert words_of(site.pid, "cmdline") == SITE
        assert words_of(site.pid, "environ") == [f"PATH={os.environ['PATH']}", "FLYWHEEL_HOME=/a/home"]
        assert os.getsid(site.pid) == os.getsid(0)
        assert os.getpgid(site.pid) == os.getpgid(0)
        site.terminate()
        assert site.wait(10) == 0


def test_a_forked_process_ends_with_its_standard_input() -> None:
    with begun_site() as site:
        assert site.stdin is not None
        site.stdin.close()
        assert site.wait(10) == 0


@pytest.mark.parametrize("struck", ["process", "group"])
def test_a_forked_process_is_killed_alone_or_with_its_group(struck: str) -> None:
    with begun_site(start_new_session=True) as site:
        assert os.getsid(site.pid) == os.getpgid(site.pid) == site.pid
        if struck == "group":
            os.killpg(site.pid, signal.SIGKILL)
        else:
            site.kill()
        assert site.wait(10) == -signal.SIGKILL
    until = time.monotonic() + 10
    while is_there(site.pid):
        assert time.monotonic() < until, "what forks for it outlives it"
        time.sleep(0.01)


def test_a_forked_command_starts_its_site_as_a_child_of_its_own_and_both_end_together() -> None:
    child = subprocess.Popen([*COMMAND, "env", "serve", "marketplace", "--json"], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"{\n"
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        (site,) = [int(each) for each in children if words_of(int(each), "cmdline")[1:3] == SITE[1:3]]
        ended = select.poll()
        ended.register(os.pidfd_open(site), select.POLLIN)
        assert ended.poll(0) == []
    finally:
        child.kill()
        child.communicate()
    assert ended.poll(10_000) != []


def test_a_training_process_has_the_libraries_of_training_and_says_how_it_is_used() -> None:
    done = subprocess.run(TRAINER, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("usage: python -m trainer")
    with local_site("marketplace") as site:
        assert site.pid is not None
        assert parent_of(site.pid) == os.getpid()
