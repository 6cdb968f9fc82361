"""Jobs played and recorded over a real database and a real site: what is kept is of the run that stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import text

from agents.envs.client import EnvClient
from agents.envs.provider import local_site
from agents.rollouts.play import Job, Means
from agents.rollouts.record import abandon, stopwatch
from agents.rollouts.state_keys import session
from api.house import House
from api.playing import play_one
from eventlog.events import PromotionRule, RunMissing
from tests.integration.test_rollouts import BOOK, jobs

ALEX = session("alex")


@pytest.fixture(scope="module")
def client() -> Iterator[EnvClient]:
    with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


def means(client: EnvClient) -> Means:
    return Means(client, BOOK, PromotionRule(), stopwatch)


def of_alex(number: int, sweep: str = "s1") -> Job:
    """A job of the session of alex."""
    job = jobs(range(number + 1))[number]
    return replace(job, spec=job.spec.model_copy(update={"state_key": "alex", "sweep": sweep}))


def kept(house: House) -> dict[str, bytes | None]:
    """The profiles that are kept, by name."""
    with house.engine.connect() as connection:
        rows = connection.execute(text("SELECT name, body FROM profiles")).all()
    return {str(row.name): row.body for row in rows}


def missing(house: House) -> list[RunMissing]:
    found = (recorded.event for recorded in house.store.read(types=["RunMissing"]))
    return [event for event in found if isinstance(event, RunMissing)]


def test_a_run_that_was_given_up_hands_no_profile_in(empty_house: House, client: EnvClient) -> None:
    given_up, played = of_alex(0), of_alex(1)
    assert abandon(given_up, empty_house.store, empty_house.blobs, "plan", "it took longer than 1 s")
    assert not play_one(empty_house, means(client), given_up, ALEX).stands
    assert list(kept(empty_house).values()) == [None]
    assert play_one(empty_house, means(client), played, ALEX).stands
    assert [body is not None for body in kept(empty_house).values()] == [True]
