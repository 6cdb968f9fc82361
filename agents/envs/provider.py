"""Sites started as child processes, or reached at an address that the user gives."""

from __future__ import annotations

import json
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from .errors import BadSiteUrl, SiteDied, SiteNotReady, SitePortInUse, UnknownSite
from .sites.conditions import CLEAR, Conditions
from .sites.known import KNOWN
from .sites.site import SiteKind

CODE_ROOT: Final = Path(__file__).resolve().parents[2]
READY_WITHIN_S: Final = 20.0
STOP_WITHIN_S: Final = 5.0
TAIL: Final = 2_000


@dataclass(frozen=True, slots=True)
class Site:
    """A running site; `pid` is None if it is not our child process. Token and headers are left out of its repr.

    `page_headers` are sent with every page request, `admin_headers` with every admin request.
    """

    name: str
    url: str
    admin_url: str
    admin_token: str = field(repr=False)
    pid: int | None = None
    page_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    admin_headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def known_sites() -> Mapping[str, SiteKind]:
    """The sites that `local_site` can start, by name."""
    return KNOWN


def site_at(name: str, *, url: str, admin_url: str, admin_token: str) -> Site:
    """Describe a site that runs elsewhere; BadSiteUrl if an address is not http or https."""
    for address in (url, admin_url):
        _check_address(name, address)
    return Site(name, url.rstrip("/"), admin_url.rstrip("/"), admin_token)


@contextmanager
def local_site(
    name: str,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    admin_port: int = 0,
    ready_within_s: float = READY_WITHIN_S,
    conditions: Conditions = CLEAR,
) -> Iterator[Site]:
    """Start one of our sites as a child process, yield it when it serves, and stop it afterwards.

    `conditions` make the pages that agents see slow or failing.
    The child also ends when this process does, even if it is killed.
    Raises UnknownSite, SitePortInUse, SiteDied (with its last output), SiteNotReady.
    """
    if name not in KNOWN:
        raise UnknownSite(actual=name, expected=", ".join(sorted(KNOWN)))
    token = secrets.token_hex(16)
    command = [sys.executable, "-m", "agents.envs.serve", name, "--host", host]
    command += ["--port", str(port), "--admin-port", str(admin_port)]
    command += ["--latency-ms", conditions.latency, "--failure-rate", str(conditions.failure_rate)]
    with tempfile.TemporaryFile() as errors, _child(command, errors) as child:
        _tell(child, token)
        facts = _first_line(name, child, errors, ready_within_s)
        yield Site(name, str(facts["url"]), str(facts["admin_url"]), token, child.pid)


@contextmanager
def _child(command: list[str], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    # `python -m` searches the working directory first, so the child runs the same code as its parent.
    child = subprocess.Popen(  # noqa: S603 (our own module, its name checked)
        command, cwd=CODE_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
    )
    try:
        yield child
    finally:
        _stop(child)


def _stop(child: subprocess.Popen[bytes]) -> None:
    for ending in (_hang_up, subprocess.Popen.terminate, subprocess.Popen.kill):
        ending(child)
        try:
            child.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            continue
        break
    if child.stdout is not None:
        child.stdout.close()


def _hang_up(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        try:
            child.stdin.close()
        except BrokenPipeError:
            return


def _tell(child: subprocess.Popen[bytes], token: str) -> None:
    if child.stdin is not None:
        try:
            child.stdin.write(f"{token}\n".encode())
            child.stdin.flush()
        except BrokenPipeError:
            return  # it died already; reading its first line reports why


def _first_line(name: str, child: subprocess.Popen[bytes], errors: IO[bytes], within_s: float) -> dict[str, object]:
    said: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(child, said), daemon=True).start()
    try:
        line = said.get(timeout=within_s)
    except queue.Empty as problem:
        raise SiteNotReady(site=name, actual="it printed nothing", timeout_s=within_s) from problem
    if not line:
        status = child.wait(STOP_WITHIN_S)
        raise SiteDied(site=name, actual=status, stderr=_tail(errors))
    return _ready_facts(name, line, within_s)


def _listen(child: subprocess.Popen[bytes], said: queue.Queue[bytes]) -> None:
    if child.stdout is not None:
        said.put(child.stdout.readline())


def _ready_facts(name: str, line: bytes, within_s: float) -> dict[str, object]:
    try:
        facts = json.loads(line)
    except ValueError as problem:
        raise SiteNotReady(site=name, actual=f"it printed {line[:TAIL]!r}", timeout_s=within_s) from problem
    if facts.get("failed") == SitePortInUse.__name__:
        raise SitePortInUse(**facts["facts"])
    if not {"url", "admin_url"} <= facts.keys():
        raise SiteNotReady(site=name, actual=f"it printed {line[:TAIL]!r}", timeout_s=within_s)
    return dict(facts)


def _tail(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read().decode(errors="replace")[-TAIL:].strip() or "none"


def _check_address(name: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        sound = False
    if not sound:
        raise BadSiteUrl(actual=address, site=name)
