"""Foreign sites that do not do as they say, met by the client and by observing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import pytest

from agents.envs.clients.session import Session
from agents.envs.command import command_site
from agents.envs.errors import EnvironmentDown, InstanceClosed, NotSeedable, SeedLost
from agents.envs.foreign.client import ForeignClient
from agents.envs.foreign.dialect import Dialect, Paths
from agents.envs.foreign.observe import observe
from agents.envs.leases import ThreadLeases, with_lease
from agents.envs.provider import Site
from tests.foreign_site import BOOT_SEED, TASK, TOKEN, Speech


@contextmanager
def speaking(speech: Speech, dialect: Dialect | None = None) -> Iterator[tuple[Site, ForeignClient]]:
    with (
        command_site("harbour", speech.command(), TOKEN) as site,
        ForeignClient(site.admin_url, TOKEN, dialect) as client,
    ):
        yield site, client


@pytest.mark.parametrize("dialect", [None, Dialect(seeding="reset")])
def test_a_site_that_ignores_seeds_is_found_at_the_first_reset(dialect: Dialect | None) -> None:
    with speaking(Speech(seeding="ignored"), dialect) as (_, client):
        for _ in range(2):
            with pytest.raises(NotSeedable, match="the seeds 6 and 5 give one state"):
                client.reset(5)
        assert client.health().instances == 0


def test_a_site_without_the_call_that_seeds_is_not_seedable() -> None:
    for dialect in (Dialect(seeding="seed"), Dialect(paths=Paths(reset=None))):
        with speaking(Speech(seeding="reset"), dialect) as (_, client), pytest.raises(NotSeedable, match="no call"):
            client.reset(5)


def test_a_site_that_goes_back_to_its_own_seed_is_found_by_what_it_holds() -> None:
    with speaking(Speech(seeding="forgetful")) as (_, client):
        client.reset(5)
        with pytest.raises(SeedLost, match="seed 5"):
            client.reset(5)
    with speaking(Speech(seeding="forgetful")) as (_, client):
        client.reset(5)
        client.reset(7)
        with pytest.raises(NotSeedable, match="the seeds 7 and 8"):
            client.reset(8)


def test_a_site_of_one_seed_serves_that_seed_and_no_other() -> None:
    dialect = Dialect(seeding="none", only_seed=BOOT_SEED)
    with speaking(Speech(seeding="ignored"), dialect) as (_, client):
        one, again = (client.state(client.reset(BOOT_SEED)) for _ in range(2))
        assert one == again
        with pytest.raises(NotSeedable, match="seed 5 was asked for"):
            client.reset(5)


def test_a_state_that_says_too_little_needs_a_witness() -> None:
    with speaking(Speech(facets=False)) as (_, client), pytest.raises(NotSeedable):
        client.reset(5)
    with speaking(Speech(facets=False), Dialect(witnesses=("/boats",))) as (_, client):
        one, other, again = (client.state(client.reset(seed)).fingerprint for seed in (5, 6, 5))
        assert one == again != other


def test_a_field_that_changes_by_itself_has_to_be_named() -> None:
    with speaking(Speech(), Dialect(volatile=())) as (_, client):
        client.reset(5)
        with pytest.raises(SeedLost, match="field"):
            client.reset(5)


def test_a_newer_instance_closes_the_one_before_it() -> None:
    with speaking(Speech()) as (_, client):
        first = client.reset(5)
        second = client.reset(6)
        assert first.instance != second.instance
        with pytest.raises(InstanceClosed):
            client.oracle(first, TASK)
        assert client.oracle(second, TASK).task_id == TASK


def test_observing_without_leave_to_seed_changes_nothing() -> None:
    with speaking(Speech(seeding="seed", operation="op", own_row=True)) as (site, client):
        instance = client.reset(5)
        before = client.state(instance)
        found = observe(site.admin_url, TOKEN)
        assert client.state(instance) == before
    assert (found.seeding, found.refused, found.row.operation) == ("seed", (401,), ("op",))
    assert found.since_filters


def test_observing_finds_what_the_site_does() -> None:
    speech = Speech(seeding="seed", mutations=False, refuses=403, unknown=404)
    with speaking(speech) as (site, _):
        found = observe(site.admin_url, TOKEN, may_seed=True)
    assert (found.seeding, found.paths.mutations, found.refused) == ("seed", "/__env__/state", (403,))
    assert (found.unknown_task_status, found.unknown_task_reason) == ((404,), None)
    with speaking(Speech(seeding="ignored", since="ignored", own_row=True)) as (site, _):
        found = observe(site.admin_url, TOKEN, may_seed=True)
    assert (found.seeding, found.only_seed, found.since_filters) == ("none", BOOT_SEED, False)
    assert found.row.operation == ("operation",)


def test_observing_tells_a_state_that_says_too_little_from_a_call_that_takes_no_seed() -> None:
    said: list[str] = []
    with speaking(Speech(seeding="seed", facets=False)) as (site, _):
        found = observe(site.admin_url, TOKEN, may_seed=True, say=said.append)
    assert (found.seeding, found.witnesses) == ("seed", ("/",))
    assert [sentence.partition(":")[0] for sentence in said] == [
        "health names no tasks",
        "health does not say the site's name",
    ]
    said.clear()
    with speaking(Speech(seeding="ignored", facets=False, mutations=False)) as (site, _):
        found = observe(site.admin_url, TOKEN, may_seed=True, say=said.append)
    assert (found.seeding, found.witnesses, found.row.listed) == ("none", (), ("recent_audit",))
    assert any("`witnesses`" in sentence for sentence in said)


def test_a_site_that_is_gone_is_down() -> None:
    with speaking(Speech()) as (site, _):
        pass
    with ForeignClient(site.admin_url, TOKEN, timeout_s=1) as late:
        with pytest.raises(EnvironmentDown):
            late.reset(5)
        with pytest.raises(EnvironmentDown):
            observe(site.admin_url, TOKEN, timeout_s=1)


def test_siblings_under_a_lease_are_graded_by_what_they_did_themselves() -> None:
    with speaking(Speech(seeding="seed", own_row=True)) as (_, client):
        environment = with_lease(client, ThreadLeases())

        def run(sibling: int) -> bool:
            instance = environment.reset(5)
            with Session(instance.url) as session:
                if sibling % 2:
                    reveal_the_right_ones(session)
                session.open("/boats")
            graded = environment.oracle(instance, TASK)
            environment.close(instance)
            return graded.passed

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(run, range(8))) == [False, True] * 4


def reveal_the_right_ones(session: Session) -> None:
    shown = re.findall(r"(\d+): (\d+)", session.open("/boats").text())
    for boat, _ in sorted(shown, key=lambda each: (int(each[1]), each[0]))[:2]:
        session.submit(session.open("/boats"), f"Show the number of {boat}")


def test_a_grade_that_another_reset_overtook_is_none() -> None:
    with speaking(Speech()) as (site, _):

        def overtaken(request: httpx2.Request) -> httpx2.Response:
            with httpx2.Client(trust_env=False) as web:
                content, headers = request.read(), dict(request.headers)
                answer = web.request(request.method, str(request.url), content=content, headers=headers)
            if "oracle" in request.url.path:
                late.reset(6)
            return httpx2.Response(answer.status_code, content=answer.content)

        transport = httpx2.MockTransport(overtaken)
        with ForeignClient(site.admin_url, TOKEN, transport=transport) as late:
            mine = late.reset(5)
            with pytest.raises(InstanceClosed):
                late.oracle(mine, TASK)
