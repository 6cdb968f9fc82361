"""What `docs/environments.md` promises, asked of every site that we ship, in a process of its own over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.errors import EnvironmentRefused, InstanceClosed, TaskNotGraded
from agents.envs.provider import Site, known_sites
from tests.sites import SharedSite


@pytest.fixture(scope="module", params=sorted(known_sites()))
def site(request: pytest.FixtureRequest, shared_site: SharedSite) -> Site:
    return shared_site(str(request.param))


@pytest.fixture(scope="module")
def env(site: Site) -> Iterator[EnvClient]:
    with EnvClient(site.admin_url, site.admin_token) as client:
        yield client


@pytest.fixture(scope="module")
def web() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False) as client:
        yield client


def test_health_names_the_site_and_the_tasks_that_the_table_names(site: Site, env: EnvClient) -> None:
    health = env.health()
    assert health.site == site.name
    assert health.tasks == known_sites()[site.name].tasks
    assert health.tasks
    assert all(task.task_id.startswith(f"{site.name}.") for task in health.tasks)
    assert {task.cluster for task in health.tasks} >= {"navigation", "policy", "noise", "control"}


def test_equal_seeds_make_equal_states_and_others_make_others(env: EnvClient) -> None:
    one, two, other = (env.state(env.reset(seed)) for seed in (5, 5, 6))
    assert one == two
    assert one.fingerprint != other.fingerprint
    assert (one.seed, other.seed) == (5, 6)


def test_an_index_draws_other_noise_and_the_same_start(env: EnvClient) -> None:
    plain, sibling = env.reset(5), env.reset(5, repeat=3)
    assert (plain.repeat, sibling.repeat) == (0, 3)
    assert env.state(plain) == env.state(sibling)
    again = env.reset(5, instance=sibling, repeat=4)
    assert (again.instance, again.repeat) == (sibling.instance, 4)


@pytest.mark.parametrize("repeat", [-1, 2**53, "1", 1.5, True, None])
def test_an_index_that_is_none_is_refused(site: Site, web: httpx2.Client, repeat: object) -> None:
    body = {"seed": 1, "repeat": repeat}
    answer = web.post(f"{site.admin_url}/__env__/reset", json=body, headers={"X-Env-Admin": site.admin_token})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_repeat")


def test_instances_have_addresses_of_their_own_that_answer(env: EnvClient, web: httpx2.Client) -> None:
    one, two = env.reset(5), env.reset(5)
    assert one.instance != two.instance
    assert one.url != two.url
    assert web.get(one.url).status_code == web.get(two.url).status_code == 200


def test_looking_changes_nothing(env: EnvClient, web: httpx2.Client) -> None:
    instance = env.reset(8)
    before = env.state(instance)
    web.get(instance.url)
    for task in env.health().tasks:
        env.oracle(instance, task.task_id)
    assert env.state(instance) == before
    assert env.mutations(instance) == ()


def test_a_null_agent_scores_nothing_whatever_the_seed(env: EnvClient) -> None:
    for seed in (0, 1, 9_999, 10_000, 2**53 - 1):
        instance = env.reset(seed)
        for task in env.health().tasks:
            graded = env.oracle(instance, task.task_id)
            assert (graded.passed, graded.score_micro) == (False, 0)
            assert graded.reasons


def test_resetting_an_instance_keeps_its_id_and_its_address(env: EnvClient) -> None:
    instance = env.reset(5)
    again = env.reset(6, instance=instance)
    assert (again.instance, again.url, again.seed) == (instance.instance, instance.url, 6)
    assert env.state(instance) == env.state(env.reset(6))


def test_a_closed_instance_is_gone_from_both_ports(env: EnvClient, web: httpx2.Client) -> None:
    instance = env.reset(5)
    env.close(instance)
    assert web.get(instance.url).status_code == 404
    with pytest.raises(InstanceClosed):
        env.state(instance)


def test_unknown_tasks_and_wrong_tokens_are_refused(site: Site, env: EnvClient) -> None:
    with pytest.raises(TaskNotGraded):
        env.oracle(env.reset(5), "no.such_task")
    with EnvClient(site.admin_url, "not the token") as stranger, pytest.raises(EnvironmentRefused):
        stranger.reset(5)


def test_the_two_ports_have_nothing_in_common(site: Site, env: EnvClient, web: httpx2.Client) -> None:
    headers = {"X-Env-Admin": site.admin_token}
    for operation in ("health", "state", "oracle", "mutations"):
        assert web.get(f"{site.url}/__env__/{operation}", headers=headers).status_code == 404
    assert web.post(f"{site.url}/__env__/reset", headers=headers, json={"seed": 1}).status_code == 404
    assert web.get(f"{site.admin_url}/i/{env.reset(5).instance}/").status_code == 404
