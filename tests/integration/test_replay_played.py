"""Runs played against the marketplace just now, and replayed from what they left: nothing is asked of a site again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from agents.executors import recorded_pages
from api.controllers.fast import Controller
from api.course import Course
from api.history.replay import replayed
from api.history.whatif.compose import if_reward, if_rule
from api.history.whatif.definitions import reward_in_force, rule_in_force
from api.house import House
from eventlog.events import PromotionRule, Rules, SeedsRule
from projections.difference import difference
from projections.runs import RUNS
from tests.admitted import admitted

from .test_evaluate import Watching

COURSE = Course(
    seeds_per_round=6,
    visible_seeds=(9_000,),
    sealed_seeds=tuple(range(10_000, 10_005)),
    max_rounds=6,
    max_verdicts=1,
    clusters=("navigation",),
    max_parallel=4,
    rule=SeedsRule(),
    rules=Rules(test="bootstrap", min_pairs=1),
)


@pytest.fixture(scope="module")
def client() -> Iterator[EnvClient]:
    with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


def test_a_history_played_now_replays_run_by_run_and_differs_under_another_rule_alone(
    client: EnvClient, empty_house: House
) -> None:
    house = empty_house
    admitted(house.store, "marketplace")
    Controller(house, client, "marketplace", COURSE, Watching()).run()
    views, head = house.views(), house.store.head()

    runs = views.find(RUNS)
    assert {run.status for run in runs.values()} == {"completed", "halted"}
    assert recorded_pages.ROOT.startswith("http://recorded.invalid/")
    found = [replayed(house.store, house.blobs, house.views, run) for run in runs]
    assert {(each.outcome, each.not_compared) for each in found} == {("identical", ())}
    assert house.store.head() == head

    def ruled(rule: PromotionRule) -> bool:
        return if_rule(house.store, house.blobs, house.views, rule, head).is_empty

    assert ruled(rule_in_force(house.store, head))
    assert not ruled(SeedsRule(wins_to_promote=1_000))
    assert if_reward(house.store, house.blobs, house.views, reward_in_force(house.store, head), head).is_empty
    changed = difference(house.views(views.upto), views)
    assert changed.is_empty
    assert house.store.head() == head
