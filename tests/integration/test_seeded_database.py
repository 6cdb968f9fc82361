"""The seeded template: every test that wants one gets the golden log in a database of its own."""

from __future__ import annotations

import pytest

from api.house import House
from eventlog.chain import GENESIS, verify_chain
from eventlog.store import START
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.compare import compare

pytestmark = pytest.mark.reads


def test_the_golden_log_verifies_and_every_projection_of_it_is_identical(house: House) -> None:
    rows = list(verify_chain(house.store.read_stored(), after=START, previous=GENESIS))
    assert len(rows) == house.store.head() > 500
    assert all(found.is_identical for found in compare(house.views()))


def test_the_golden_log_ends_with_the_first_champion_put_back(house: House) -> None:
    champion = house.views().get(CHAMPIONS, CHAMPION)
    assert champion is not None
    assert (champion.name, champion.by) == ("base@0", "rollback")


def test_an_empty_log_stands_at_the_start(empty_house: House) -> None:
    assert empty_house.store.head() == START
    assert empty_house.views().find(CHAMPIONS) == {}
