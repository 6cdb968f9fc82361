"""A site in a Daytona sandbox: created or attached to, started, reached through its preview proxy, and ended.

Uses Daytona's own library, which comes with the extra `daytona` and is imported on use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from .command import HEALTH, await_health
from .errors import DaytonaMissing, SandboxFailed
from .provider import Site, site_at

if TYPE_CHECKING:
    from daytona import Daytona
    from daytona import Sandbox as Theirs

TOKEN_HEADER: Final = "x-daytona-preview-token"  # noqa: S105 (a header's name)
WARNING_HEADER: Final = "X-Daytona-Skip-Preview-Warning"
AUTOSTOP_MINUTES: Final = 180
START_WITHIN_S: Final = 120.0
PORT: Final = 8080
USUAL_URL: Final = "https://app.daytona.io/api"

AtTheEnd = Literal["delete", "stop", "leave"]


@dataclass(frozen=True, slots=True)
class DaytonaAccount:
    """Access to Daytona: the key, and the address and region if they are not the defaults."""

    key: str = field(repr=False)
    url: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox that serves a site: an existing one by `sandbox_id`, else a new one from `snapshot` or `image`.

    Preview requests do not count as activity, so a sandbox stops `autostop_minutes` after its start or the last Daytona
    API call (0: never): choose more than the longest sweep. `variables` are its environment variables. `admin_port` is
    None if pages and admin surface share a port. By default, a created sandbox is deleted at the end, and an existing
    one is left as it was found; `at_the_end` overrides this.
    """

    sandbox_id: str | None = None
    snapshot: str | None = None
    image: str | None = None
    port: int = PORT
    admin_port: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    autostop_minutes: int = AUTOSTOP_MINUTES
    at_the_end: AtTheEnd | None = None
    health: str = HEALTH
    start_within_s: float = START_WITHIN_S

    @property
    def end_action(self) -> AtTheEnd:
        """Action on the sandbox at the end: by default, delete a created one and leave an existing one."""
        return self.at_the_end or ("delete" if self.sandbox_id is None else "leave")


@contextmanager
def daytona_site(name: str, sandbox: Sandbox, account: DaytonaAccount, admin_token: str) -> Iterator[Site]:
    """Yield a sandbox's site once it answers, with the headers for its preview proxy; end the sandbox afterwards.

    Raises DaytonaMissing, SandboxFailed, BadSiteUrl, SiteUnhealthy.
    """
    deadline = time.monotonic() + sandbox.start_within_s
    with _run_sandbox(name, sandbox, _daytona(name, sandbox, account)) as running:
        url, headers = _preview(name, running, sandbox.port, sandbox)
        admin_url, admin_headers = url, headers
        if sandbox.admin_port is not None:
            admin_url, admin_headers = _preview(name, running, sandbox.admin_port, sandbox)
        checked = site_at(name, url=url, admin_url=admin_url, admin_token=admin_token)
        site = replace(checked, page_headers=headers, admin_headers=admin_headers)
        await_health(site, sandbox.health, deadline=deadline, within_s=sandbox.start_within_s)
        yield site


def _daytona(name: str, sandbox: Sandbox, account: DaytonaAccount) -> Daytona:
    try:
        import daytona  # noqa: PLC0415 an extra, imported on use
    except ImportError as problem:
        raise DaytonaMissing(expected="the package daytona") from problem
    with _translate_errors(name, "reached", sandbox):
        config = daytona.DaytonaConfig(api_key=account.key, api_url=account.url or USUAL_URL, target=account.target)
        return daytona.Daytona(config)


@contextmanager
def _translate_errors(name: str, operation: str, sandbox: Sandbox) -> Iterator[None]:
    """Raise Daytona's errors as SandboxFailed."""
    from daytona import DaytonaError  # noqa: PLC0415 an extra, imported on use

    try:
        yield
    except DaytonaError as problem:
        shown = f"{type(problem).__name__}: {problem}"
        raise SandboxFailed(site=name, operation=operation, actual=shown, timeout_s=sandbox.start_within_s) from problem


@contextmanager
def _run_sandbox(name: str, sandbox: Sandbox, daytona: Daytona) -> Iterator[Theirs]:
    """Yield a started sandbox, and end it as configured, even after an error."""
    if sandbox.sandbox_id is None:
        with _translate_errors(name, "made", sandbox):
            theirs, was_started = _create_sandbox(name, sandbox, daytona), True
    else:
        with _translate_errors(name, "found", sandbox):
            theirs = daytona.get(sandbox.sandbox_id)
        was_started = theirs.state == "started"
    try:
        if sandbox.sandbox_id is not None:
            with _translate_errors(name, "started", sandbox):
                _wake(theirs, sandbox, was_started=was_started)
        yield theirs
    finally:
        with _translate_errors(name, "ended", sandbox):
            _end(theirs, sandbox, was_started=was_started)


def _create_sandbox(name: str, sandbox: Sandbox, daytona: Daytona) -> Theirs:
    """Create a sandbox; with `delete`, Daytona deletes it once it stops, so a killed process leaves nothing behind."""
    from daytona import (  # noqa: PLC0415 an extra, imported on use
        CreateSandboxFromImageParams,
        CreateSandboxFromSnapshotParams,
        DaytonaTimeoutError,
    )

    asked: dict[str, Any] = {
        "env_vars": dict(sandbox.variables),
        "labels": {**sandbox.labels, "flywheel": name},
        "auto_stop_interval": sandbox.autostop_minutes,
        "auto_delete_interval": 0 if sandbox.end_action == "delete" else None,
    }
    try:
        if sandbox.image is not None:
            return daytona.create(
                CreateSandboxFromImageParams(image=sandbox.image, **asked), timeout=sandbox.start_within_s
            )
        return daytona.create(
            CreateSandboxFromSnapshotParams(snapshot=sandbox.snapshot, **asked), timeout=sandbox.start_within_s
        )
    except DaytonaTimeoutError as problem:
        if problem.sandbox_id is not None:
            daytona.get(problem.sandbox_id).delete()
        raise


def _wake(theirs: Theirs, sandbox: Sandbox, *, was_started: bool) -> None:
    theirs.set_autostop_interval(sandbox.autostop_minutes)
    if was_started:
        theirs.refresh_activity()
    else:
        theirs.start(timeout=sandbox.start_within_s)


def _end(theirs: Theirs, sandbox: Sandbox, *, was_started: bool) -> None:
    if sandbox.end_action == "delete":
        theirs.delete(timeout=sandbox.start_within_s)
    elif sandbox.end_action == "stop" or not was_started:
        theirs.stop(timeout=sandbox.start_within_s)


def _preview(name: str, theirs: Theirs, port: int, sandbox: Sandbox) -> tuple[str, Mapping[str, str]]:
    """Address of a port behind the preview proxy, and the headers that skip the proxy's login page."""
    with _translate_errors(name, "previewed", sandbox):
        link = theirs.get_preview_link(port)
    return link.url, {TOKEN_HEADER: link.token, WARNING_HEADER: "true"}
