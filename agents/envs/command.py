"""A site started by any command: run, polled until it is healthy, and ended with all its child processes."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

import httpx2

from .errors import SiteDied, SiteUnhealthy
from .provider import STOP_WITHIN_S, Site, site_at

READY_WITHIN_S: Final = 60.0
PATIENCE_S: Final = 5.0
PAUSE_S: Final = 0.05
HEALTH: Final = "/__env__/health"
TAIL_LINES: Final = 40
LAUNCHER: Final = Path(__file__).with_name("launch.py")
_ADDRESS: Final = re.compile(r"https?://[\w.\-\[\]:]+")
_ANY_HOST: Final = re.compile(r"//(0\.0\.0\.0|\[::\])(?=:|$)")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that serves a site.

    `url` is the address at which it will serve. If it is None, the first address that the command prints is taken:
    from a line of JSON with `url` (and `admin_url`), or from any other line. `variables` are added to its environment
    and `spoken` is written to its standard input; one of the two carries the admin token. `health` is the path that is
    polled until the site answers. `folder` is the working directory, None for the current one.
    """

    words: tuple[str, ...]
    url: str | None = None
    admin_url: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    spoken: str = field(default="", repr=False)
    health: str = HEALTH
    folder: Path | None = None
    ready_within_s: float = READY_WITHIN_S


@contextmanager
def command_site(name: str, command: Command, admin_token: str) -> Iterator[Site]:
    """Run a command, yield its site once it is healthy, and end it with every process of its session.

    Raises SiteDied with its last output, SiteUnhealthy, BadSiteUrl.
    """
    deadline = time.monotonic() + command.ready_within_s
    with _run(command) as running:
        url, admin_url = command.url, command.admin_url
        if url is None:
            url, printed = _await_address(name, command, running, deadline)
            admin_url = admin_url or printed
        site = site_at(name, url=url, admin_url=admin_url or url, admin_token=admin_token)
        await_health(
            site,
            command.health,
            deadline=deadline,
            within_s=command.ready_within_s,
            check=lambda: running.check_alive(name),
        )
        yield Site(site.name, site.url, site.admin_url, admin_token, running.child.pid)


@dataclass(frozen=True, slots=True)
class _Running:
    """A child process, the queue of its output lines (None at the end), and the last of these lines."""

    child: subprocess.Popen[bytes]
    said: queue.Queue[str | None] = field(default_factory=queue.Queue)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    silent: threading.Event = field(default_factory=threading.Event)

    def listen(self) -> None:
        """Read the output to its end, so that the child never blocks on a full pipe."""
        for line in self.child.stdout or ():
            text = line.decode(errors="replace").rstrip()
            self.last.append(text)
            self.said.put(text)
        self.said.put(None)
        self.silent.set()

    def check_alive(self, name: str) -> None:
        """Raise SiteDied if the child ended."""
        if self.child.poll() is not None:
            raise self.died_error(name)

    def died_error(self, name: str) -> SiteDied:
        """Error for a child that ended, with its last output."""
        status = self.child.wait(STOP_WITHIN_S)
        self.silent.wait(STOP_WITHIN_S)
        return SiteDied(site=name, actual=status, stderr="\n".join(self.last).strip() or "none")


@contextmanager
def _run(command: Command) -> Iterator[_Running]:
    child = subprocess.Popen(  # noqa: S603 (the user's command, without a shell)
        [sys.executable, "-P", str(LAUNCHER)],
        cwd=command.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    running = _Running(child)
    ears = threading.Thread(target=running.listen, daemon=True)
    ears.start()
    try:
        _tell(child, command)
        yield running
    finally:
        _end(child)
        ears.join(STOP_WITHIN_S)
        # A process that left the session may still hold the pipe; closing it would block until that process ends.
        if not ears.is_alive() and child.stdout is not None:
            child.stdout.close()


def _tell(child: subprocess.Popen[bytes], command: Command) -> None:
    """Send the launcher its command; standard input stays open, because sites may watch it to see when we end."""
    told = json.dumps({"variables": dict(command.variables), "command": list(command.words)})
    if child.stdin is not None:
        child.stdin.write(f"{told}\n{command.spoken}".encode())
        child.stdin.flush()


def _end(child: subprocess.Popen[bytes]) -> None:
    """End every process of the child's session by SIGTERM, then SIGKILL, including those that outlive the child."""
    if child.stdin is not None:
        with suppress(BrokenPipeError):
            child.stdin.close()
    for ending in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, ending)
        with suppress(subprocess.TimeoutExpired):
            child.wait(STOP_WITHIN_S)


def _await_address(name: str, command: Command, running: _Running, deadline: float) -> tuple[str, str | None]:
    """The address that the command printed, and the admin address if it printed both."""
    while True:
        try:
            line = running.said.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty as problem:
            told = "it printed no address"
            raise SiteUnhealthy(site=name, actual=told, timeout_s=command.ready_within_s) from problem
        if line is None:
            raise running.died_error(name)
        if (found := _read_address(line)) is not None:
            return found


def _read_address(line: str) -> tuple[str, str | None] | None:
    try:
        facts = json.loads(line)
    except ValueError:
        facts = None
    if isinstance(facts, dict) and isinstance(facts.get("url"), str):
        admin_url = facts.get("admin_url")
        return facts["url"], admin_url if isinstance(admin_url, str) else None
    found = _ADDRESS.search(line)
    return None if found is None else (_ANY_HOST.sub("//127.0.0.1", found[0].rstrip(".:")), None)


def await_health(
    site: Site,
    path: str,
    *,
    deadline: float,
    within_s: float,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Poll a path until the site answers with any status below 500. Raises SiteUnhealthy.

    `deadline` is on the monotonic clock; `check` is called before each try and may raise.
    """
    actual = "no request was sent"
    with httpx2.Client(trust_env=False, timeout=PATIENCE_S, headers=site.admin_headers) as web:
        while time.monotonic() < deadline:
            check()
            try:
                status = web.get(f"{site.admin_url}{path}").status_code
            except httpx2.HTTPError as problem:
                actual = f"{type(problem).__name__} {problem}".strip()
            else:
                if status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    return
                actual = f"status {status}"
            time.sleep(PAUSE_S)
    raise SiteUnhealthy(site=site.name, actual=actual, timeout_s=within_s)
