"""Slow and failing pages of sites in processes of their own: agents meet them, the admin surface never does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.clients.session import Session
from agents.envs.errors import ContractBroken, EnvironmentDown
from agents.envs.provider import Site, known_sites, local_site
from agents.envs.sites.conditions import Conditions
from tests.sites import SharedSite

ROOT = Path(__file__).resolve().parents[2]
WORST = Conditions(30, 60, 1_000_000)


@pytest.fixture(scope="module", params=sorted(known_sites()))
def worst(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site that answers no page."""
    with local_site(str(request.param), conditions=WORST) as started:
        yield started


@pytest.fixture(scope="module", params=sorted(known_sites()))
def clear(request: pytest.FixtureRequest, shared_site: SharedSite) -> Site:
    """A site whose pages are neither slow nor failing."""
    return shared_site(str(request.param))


@pytest.fixture(scope="module")
def web() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False) as client:
        yield client


def pattern(web: httpx2.Client, url: str, length: int = 30) -> list[int]:
    return [web.get(url).status_code for _ in range(length)]


def test_no_injected_failure_touches_the_admin_surface(worst: Site, web: httpx2.Client) -> None:
    with EnvClient(worst.admin_url, worst.admin_token) as env:
        began = time.monotonic()
        for seed in range(10):
            instance = env.reset(seed)
            for task in env.health().tasks:
                assert not env.oracle(instance, task.task_id).passed
            assert env.mutations(instance) == ()
            assert env.state(instance).seed == seed
            env.reset(seed, instance=instance, repeat=3)
            env.close(instance)
        calls = 10 * (5 + 2 * len(env.health().tasks))
        assert (time.monotonic() - began) / calls < WORST.least_ms / 1_000
        answer = web.get(env.reset(1).url)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.elapsed.total_seconds() >= WORST.least_ms / 1_000


def test_a_page_that_failed_did_nothing_and_is_no_fault_of_the_agent(worst: Site, web: httpx2.Client) -> None:
    with EnvClient(worst.admin_url, worst.admin_token) as env:
        instance = env.reset(1)
        before = env.state(instance)
        for path in ("draw", "callbacks"):
            assert web.post(instance.url + path, data={"reply_to": "a@b.c", "slo": "c1"}).status_code == 503
        assert env.state(instance) == before
        with Session(instance.url) as session, pytest.raises(EnvironmentDown, match="503"):
            session.open("/")


def test_one_instance_can_be_exposed_and_no_other_notices(clear: Site, web: httpx2.Client) -> None:
    with EnvClient(clear.admin_url, clear.admin_token) as env:
        one, two = env.reset(5), env.reset(5)
        env.expose(one, failure_rate=1.0)
        assert set(pattern(web, one.url)) == {503}
        assert set(pattern(web, two.url)) == {200}
        env.expose(one, latency_ms="40-50")
        answer = web.get(one.url)
        assert answer.status_code == 200
        assert answer.elapsed.total_seconds() >= 0.04
        env.expose(one, failure_rate=1.0)
        env.reset(5, instance=one)
        assert set(pattern(web, one.url)) == {200}


def test_which_pages_fail_follows_from_seed_and_index(clear: Site, web: httpx2.Client) -> None:
    with EnvClient(clear.admin_url, clear.admin_token) as env:

        def met(seed: int, repeat: int) -> list[int]:
            instance = env.reset(seed, repeat=repeat)
            env.expose(instance, failure_rate=0.4)
            return pattern(web, instance.url)

        assert met(5, 0) == met(5, 0)
        assert {*met(5, 0)} == {200, 503}
        assert met(5, 0) != met(5, 1)
        assert met(5, 0) != met(6, 0)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"latency": "1-2"}', b'{"latency_ms": 5}', b'{"latency_ms": "9-1"}', b'{"failure_rate": 2}',
     b'{"failure_rate": "often"}', b'{"failure_rate": true}', b'{"failure_rate": NaN}'],
)  # fmt: skip
def test_conditions_that_cannot_be_meant_are_refused(clear: Site, web: httpx2.Client, body: bytes) -> None:
    with EnvClient(clear.admin_url, clear.admin_token) as env:
        headers = {"X-Env-Admin": clear.admin_token, "X-Env-Instance": env.reset(1).instance}
    address = f"{clear.admin_url}/__env__/conditions"
    answer = web.post(address, content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["code"] in {"bad_conditions", "bad_body"}
    told = web.get(address, headers=headers).json()
    assert (told["latency_ms"], told["failure_rate"]) == ("0-0", 0.0)
    assert web.post(address, content=b"{}", headers={**headers, "X-Env-Admin": "x"}).status_code == 401
    assert web.get(f"{clear.url}/__env__/conditions", headers=headers).status_code == 404


def test_a_client_says_what_it_asked_for_wrongly(clear: Site) -> None:
    with EnvClient(clear.admin_url, clear.admin_token) as env:
        instance = env.reset(1, repeat=7)
        assert instance.repeat == 7
        with pytest.raises(ContractBroken, match="the latency is 9-1"):
            env.expose(instance, latency_ms="9-1")


@pytest.mark.parametrize("option", [["--latency-ms", "9-1"], ["--failure-rate", "2"], ["--latency-ms", "soon"]])
def test_a_site_is_not_served_under_conditions_that_cannot_be_meant(option: list[str]) -> None:
    command = [sys.executable, "-m", "agents.envs.serve", "helpdesk", *option]
    done = subprocess.run(command, cwd=ROOT, input="x" * 32, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "expected" in done.stderr


def test_the_command_serves_under_conditions_and_refuses_others() -> None:
    run = [sys.executable, "-c", "from api.cli.main import main; main()", "env", "serve", "helpdesk", "--json"]
    for option in (["--latency-ms", "9-1"], ["--failure-rate", "2"]):
        done = subprocess.run([*run, *option], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 64
        assert "Traceback" not in done.stderr
    with subprocess.Popen(
        [*run, "--failure-rate", "1", "--seed", "3", "--repeat", "2"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        lines = ""
        while not lines.rstrip().endswith("}"):
            lines += serving.stdout.readline()
        told = json.loads(lines)
        assert httpx2.get(told["instance"], trust_env=False).status_code == 503
        serving.terminate()
