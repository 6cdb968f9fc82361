"""Sites in Daytona sandboxes: Daytona's own library against recorded answers, a real site behind a preview proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.clients.session import Session
from agents.envs.connect import connect
from agents.envs.errors import LoginPage, SandboxFailed
from agents.envs.foreign.client import ForeignClient
from agents.envs.provider import Site
from agents.envs.sandbox import DaytonaAccount, Sandbox, daytona_site
from tests.preview_host import RECORDINGS, preview_of, recorded_api
from tests.sites import SharedSite

NEW = Sandbox(snapshot="harbour-site:3", port=8080, admin_port=8081, variables={"ENV_ADMIN_TOKEN": "masked"})
THERE = Sandbox(sandbox_id="harbour-1", port=8080, admin_port=8081)
SANDBOX = "/api/sandbox/2f6c1f0e-8a39-4a1d-9a55-0a4b8f0c7d11"


@dataclass(frozen=True)
class Behind:
    """A site behind previews, and what Daytona's API was asked."""

    real: Site
    site: Site
    seen: list[dict[str, Any]]


@pytest.fixture(scope="module")
def real(shared_site: SharedSite) -> Site:
    return shared_site("helpdesk")


@contextmanager
def behind(real: Site, recording: str, sandbox: Sandbox) -> Iterator[Behind]:
    with (
        preview_of(real.url, "preview-token-8080") as pages,
        preview_of(real.admin_url, "preview-token-8081") as admin,
        recorded_api(recording, {"8080": pages, "8081": admin}) as (url, seen),
        daytona_site("marketplace", sandbox, DaytonaAccount("key-1", url, "eu"), real.admin_token) as site,
    ):
        yield Behind(real, site, seen)


def calls(seen: list[dict[str, Any]]) -> list[str]:
    return [each["call"] for each in seen]


def recorded(name: str) -> list[str]:
    return [f"{each['method']} {each['path']}" for each in json.loads((RECORDINGS / f"{name}.json").read_text())]


def test_a_new_sandbox_serves_a_run_and_is_gone_afterwards(real: Site) -> None:
    with behind(real, "made", NEW) as found:
        site = found.site
        with connect(site) as env:
            instance = env.reset(5)
            state = env.state(instance)
            assert instance.url.startswith(site.url)
            with Session(instance.url, headers=env.page_headers) as session:
                assert session.open("/").status == 200
            assert not env.oracle(instance, env.health().tasks[0].task_id).passed
            assert env.state(instance) == state
            env.close(instance)
        assert calls(found.seen) == recorded("made")[:-1]
    assert calls(found.seen) == recorded("made")
    assert {each["key"] for each in found.seen} == {"Bearer key-1"}
    asked = found.seen[0]["body"]
    assert (asked["snapshot"], asked["target"], asked["autoStopInterval"], asked["autoDeleteInterval"]) == (
        "harbour-site:3", "eu", 180, 0,
    )  # fmt: skip
    assert asked["env"] == {"ENV_ADMIN_TOKEN": "masked"}
    assert asked["labels"]["flywheel"] == "marketplace"
    assert "preview-token" not in repr(site)


def test_a_sandbox_that_slept_is_woken_and_left_asleep(real: Site) -> None:
    with behind(real, "attached", THERE) as found:
        assert found.site.admin_headers["X-Daytona-Skip-Preview-Warning"] == "true"
    assert calls(found.seen) == recorded("attached")


def test_a_sandbox_that_ran_is_left_running(real: Site) -> None:
    with behind(real, "running", THERE) as found:
        assert found.site.page_headers["x-daytona-preview-token"] == "preview-token-8080"
    assert calls(found.seen) == recorded("running")
    assert f"POST {SANDBOX}/autostop/180" in calls(found.seen)


def test_a_sandbox_ends_also_where_its_user_fails(real: Site) -> None:
    with pytest.raises(ZeroDivisionError), behind(real, "made", NEW) as found:
        raise ZeroDivisionError
    assert calls(found.seen)[-1] == f"DELETE {SANDBOX}"


@pytest.mark.parametrize(
    ("recording", "sandbox", "told"),
    [("refused", THERE, "found: DaytonaAuth.*Invalid credentials"), ("broken", NEW, "made: .*no such image")],
)
def test_what_daytona_says_no_to_is_said(real: Site, recording: str, sandbox: Sandbox, told: str) -> None:
    with pytest.raises(SandboxFailed, match=told), behind(real, recording, sandbox):
        raise AssertionError


def test_without_its_headers_the_proxys_login_page_is_called_so(real: Site) -> None:
    with preview_of(real.admin_url, "preview-token-8081") as url:
        with EnvClient(url, real.admin_token) as env, pytest.raises(LoginPage, match="status 307 to /login"):
            env.reset(5)
        with ForeignClient(url, real.admin_token) as foreign, pytest.raises(LoginPage, match="proxy"):
            foreign.reset(5)
        half = {"x-daytona-preview-token": "preview-token-8081"}
        with EnvClient(url, real.admin_token, extra_headers=half) as env, pytest.raises(LoginPage):
            env.health()
        assert httpx2.get(f"{url}/login", trust_env=False).status_code == 200
