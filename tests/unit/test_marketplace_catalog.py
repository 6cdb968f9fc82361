from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pytest

from agents.envs.sites.marketplace.catalog import Boat, Catalogue, catalogue
from agents.envs.sites.marketplace.search import find_results, read_query
from agents.envs.sites.marketplace.tasks import LEAD_WANTED, PHONE_WANTED

SEEDS = (*range(60), *range(9_990, 10_010), 123_456_789, 2**53 - 1)
LEAD_FILTERS = {"mk": "bayliner", "slr": "prv", "pmax": "40000", "ord": "asc"}
PHONE_FILTERS = {"mk": "sea-ray", "slr": "prv", "rg": "florida", "ord": "asc"}


def first(stock: Catalogue, filters: dict[str, str]) -> Boat:
    return find_results(stock, read_query(filters)).rows[0]


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(range(60, 300), marks=pytest.mark.endure)], ids=["some", "many"])
def test_every_seed_gives_each_task_one_right_boat_that_needs_every_filter(seeds: Sequence[int]) -> None:
    for seed in seeds:
        stock = catalogue(seed)
        assert len({boat.price for boat in stock.boats}) == len(stock.boats) == 600
        assert min(boat.price for boat in stock.boats) > 0
        for wanted, filters in ((LEAD_WANTED, LEAD_FILTERS), (PHONE_WANTED, PHONE_FILTERS)):
            right, *others = stock.qualifying_boats(wanted)
            assert len(others) >= 2
            assert first(stock, filters) == right
            for skipped in set(filters) - {"pmax"}:
                assert first(stock, {**filters, skipped: ""}) != right, (seed, skipped)


def test_the_catalogue_follows_from_the_seed_alone() -> None:
    made = catalogue(7)
    catalogue.cache_clear()
    assert catalogue(7) == made
    assert catalogue(7).digest == made.digest
    assert len({catalogue(seed).digest for seed in range(50)}) == 50


def test_the_catalogue_is_the_same_on_every_machine_and_python() -> None:
    assert catalogue(42).digest == "13bc0d88bc93cecf9a25889a0035de2c1a2123150360c2318eba5f92138a56b7"


def test_the_right_boat_varies_with_the_seed() -> None:
    for wanted in (LEAD_WANTED, PHONE_WANTED):
        assert len({catalogue(seed).qualifying_boats(wanted)[0].slug for seed in range(40)}) == 40


def test_boats_are_complete_and_newest_first() -> None:
    stock = catalogue(1)
    assert [boat.id for boat in stock.boats] == sorted((boat.id for boat in stock.boats), reverse=True)
    assert len(stock.by_slug) == len(stock.by_id) == 600
    assert len({boat.make for boat in stock.boats}) == 12
    assert len({boat.state for boat in stock.boats}) == 10
    for boat in stock.boats:
        assert all(asdict(boat).values())
        assert boat.engine.hp > 0
        assert stock.by_id[str(boat.id)] is stock.by_slug[boat.slug] is boat


@pytest.mark.parametrize(
    ("said", "expected"), [("40000", 40_000), ("$40,000", 40_000), ("  ", None), ("0", 0), (" 12 ", 12)]
)
def test_prices_are_read_as_people_write_them(said: str, expected: int | None) -> None:
    query = read_query({"pmax": said})
    assert (query.max_price, query.errors) == (expected, ())


@pytest.mark.parametrize(
    "fields", [{"pmax": "cheap"}, {"lmin": "-3"}, {"pmax": "1" * 40}, {"mk": "titanic"}, {"slr": "x"}, {"pmax": "٣"}]
)
def test_what_cannot_be_read_is_named(fields: dict[str, str]) -> None:
    assert len(read_query(fields).errors) == 1


def test_filters_order_and_pages() -> None:
    stock = catalogue(3)
    everything = find_results(stock, read_query({}))
    assert (everything.total, everything.pages, everything.rows) == (600, 30, stock.boats[:20])
    assert find_results(stock, read_query({"pg": "99"})).page == 30
    assert find_results(stock, read_query({"pg": "2"})).rows == stock.boats[20:40]
    dear = find_results(stock, read_query({"ord": "desc", "lmin": "30"})).rows
    assert all(boat.length_ft >= 30 for boat in dear)
    assert [boat.price for boat in dear] == sorted((boat.price for boat in dear), reverse=True)
    nothing = find_results(stock, read_query({"pmax": "1"}))
    assert (nothing.total, nothing.pages, nothing.rows) == (0, 1, ())
