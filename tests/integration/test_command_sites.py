"""Sites from any command: found by what they print, awaited, and ended with their children."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.command import Command, command_site
from agents.envs.errors import SiteDied, SiteUnhealthy
from tests.foreign_site import ROOT, TOKEN, Speech
from tests.killing import has_ended

OURS = Command((sys.executable, "-m", "agents.envs.serve", "marketplace"), spoken="a token of ours ...\n", folder=ROOT)
WITH_A_CHILD = """
import http.server, subprocess, sys
waiting = "import time; print('x', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE)
child.stdout.readline()
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open(sys.argv[1], "w").write(str(child.pid))
print(f"see http://0.0.0.0:{server.server_port}/", flush=True)
server.serve_forever()
"""


def python(program: str, *arguments: str, within_s: float = 60.0) -> Command:
    return Command((sys.executable, "-c", program, *arguments), ready_within_s=within_s)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody waits for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_site_of_ours_can_be_started_by_its_command() -> None:
    with command_site("marketplace", OURS, "a token of ours ...") as site:
        assert site.url != site.admin_url
        with EnvClient(site.admin_url, site.admin_token) as env:
            assert env.reset(5).url.startswith(site.url)
        assert site.pid is not None
        assert is_alive(site.pid)
    assert not is_alive(site.pid)


def test_the_token_is_in_no_list_of_processes() -> None:
    with command_site("harbour", Speech().command(), TOKEN) as site:
        words = Path(f"/proc/{site.pid}/cmdline").read_bytes()
        assert b"tests.foreign_site" in words
        assert TOKEN.encode() not in words


def test_its_children_end_with_it(tmp_path: Path) -> None:
    noted = tmp_path / "child"
    with command_site("one", replace(python(WITH_A_CHILD, str(noted)), folder=tmp_path), TOKEN) as site:
        child = int(noted.read_text())
        assert site.url.startswith("http://127.0.0.1:")
        assert is_alive(child)
    assert has_ended(child)  # it was killed with the others, and nobody waited for it


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9"])
def test_a_command_that_dies_tells_its_last_words(url: str | None) -> None:
    command = replace(python("import sys; sys.exit('no harbour today')"), url=url)
    with pytest.raises(SiteDied, match=r"exit status 1 .*no harbour today"), command_site("one", command, TOKEN):
        raise AssertionError


def test_a_program_that_is_not_there_is_said() -> None:
    command = Command(("/no/such/program",))
    with pytest.raises(SiteDied, match=r"127 .*/no/such/program: No such file"), command_site("one", command, TOKEN):
        raise AssertionError


@pytest.mark.parametrize(
    ("program", "told"),
    [("input()", "printed no address"), ("print('http://127.0.0.1:9/', flush=True); input()", "ConnectError")],
)
def test_a_command_that_never_serves_is_not_waited_for_for_ever(program: str, told: str) -> None:
    command = python(program, within_s=1.5)
    with pytest.raises(SiteUnhealthy, match=told), command_site("one", command, TOKEN):
        raise AssertionError


def test_this_process_keeps_its_own_environment() -> None:
    with command_site("harbour", Speech().command(), TOKEN):
        assert "ENV_ADMIN_TOKEN" not in os.environ
