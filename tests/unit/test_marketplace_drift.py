from __future__ import annotations

from itertools import pairwise

import pytest

from agents.envs.sites.marketplace.drift import CANONICAL, SEALED, TRAINING, Family, Place, drift_family

PLACES: tuple[Place, ...] = ("search", "detail", "lead", "phone", "thanks")
ALL = (CANONICAL, *TRAINING, *SEALED)


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_every_address_is_found_again_and_only_in_its_own_family(family: Family) -> None:
    for place in PLACES:
        path = family.path(place, slug="2010-cobalt-a25-123", number=123)
        found = family.locate(path)
        assert found is not None
        assert found[0] == place
        assert found[1] in (("",) if place == "search" else ("123", "2010-cobalt-a25-123"))
        assert family.locate(path.rstrip("/") + "/") == found
        for other in ALL:
            if other is not family:
                assert other.locate(path) is None, (other.name, path)


def test_the_key_in_an_address_is_the_boat() -> None:
    assert CANONICAL.locate("/boats/2010-cobalt-a25-123/contact") == ("lead", "2010-cobalt-a25-123")
    assert family_named("php").locate("/vessel-123.php") == ("detail", "123")
    assert family_named("english").locate("/en/boats") == ("search", "")
    assert CANONICAL.locate("/boats/../boats") is None
    assert CANONICAL.locate("/Boats") is None


def test_pools_share_only_the_canonical_family() -> None:
    training = {drift_family(seed).name for seed in range(10_000)}
    sealed = {drift_family(seed).name for seed in range(10_000, 20_000)}
    assert training & sealed == {"canonical"}
    assert len(training) == 5
    assert len(sealed) == 6


@pytest.mark.parametrize("start", [0, 10_000, 5_000_000])
def test_one_seed_in_four_is_canonical_and_neighbours_differ(start: int) -> None:
    families = [drift_family(seed) for seed in range(start, start + 2_000)]
    assert families.count(CANONICAL) == 500
    assert all(here is not there for here, there in pairwise(families))
    positions = {seed % 4 for seed in range(start, start + 200) if drift_family(seed) is CANONICAL}
    assert len(positions) > 1


def test_the_boundary_between_the_pools_is_exact() -> None:
    assert all(drift_family(seed) in (CANONICAL, *TRAINING) for seed in range(9_980, 10_000))
    assert all(drift_family(seed) in (CANONICAL, *SEALED) for seed in range(10_000, 10_020))


def family_named(name: str) -> Family:
    return next(family for family in ALL if family.name == name)
