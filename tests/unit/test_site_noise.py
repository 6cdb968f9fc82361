"""Noise and the weather of pages: drawn from seed and index alone, once, and outside of the fingerprint."""

from __future__ import annotations

import pytest

from agents.envs.sites.conditions import CLEAR, LONGEST_MS, UNHARMED, Conditions, fate, read_conditions
from agents.envs.sites.helpdesk.instance import Desk
from agents.envs.sites.instances import Instances
from agents.envs.sites.marketplace.instance import Harbour
from agents.envs.sites.noise import Noise, Troubles
from benchmarks.base_rates import room_of
from benchmarks.shipped import PLANS

NOISY = (
    "marketplace.price_watch",
    "marketplace.control_draw",
    "helpdesk.merge_duplicates",
    "helpdesk.control_callback",
)


def test_a_draw_follows_from_seed_index_and_name_and_from_nothing_else() -> None:
    drawn = [Noise(seed, repeat).happens("x", 500) for seed in range(40) for repeat in range(5)]
    assert drawn == [Noise(seed, repeat).happens("x", 500) for seed in range(40) for repeat in range(5)]
    assert drawn != [Noise(seed, repeat).happens("y", 500) for seed in range(40) for repeat in range(5)]
    assert drawn[:12] == [False, False, True, False, False, True, True, True, True, False, True, False]


@pytest.mark.parametrize("per_mille", [0, 250, 500, 1000])
def test_a_thing_happens_as_often_as_it_is_said(per_mille: int) -> None:
    share = sum(Noise(seed, repeat).happens("x", per_mille) for seed in range(200) for repeat in range(20)) / 4_000
    assert abs(share - per_mille / 1_000) < 0.03


def test_a_trouble_is_met_once() -> None:
    troubles = Troubles(Noise(1, 1), {"always": 1_000, "never": 0})
    assert [troubles.meet("always"), troubles.meet("always"), troubles.meet("never")] == [True, False, False]


@pytest.mark.parametrize("kind", [Harbour, Desk])
def test_noise_is_outside_of_the_fingerprint(kind: type[Harbour | Desk]) -> None:
    assert len({kind(7, repeat).fingerprint() for repeat in range(20)}) == 1


@pytest.mark.parametrize("task", NOISY)
def test_siblings_meet_other_noise_and_a_repetition_meets_the_same(task: str) -> None:
    with room_of(task.partition(".")[0]) as room:

        def outcomes() -> list[list[tuple[bool, str, str, tuple[str, ...]]]]:
            played = [[room.play(task, PLANS[task], seed, repeat) for repeat in range(4)] for seed in range(6)]
            return [[(each.passed, each.start, each.end, each.reasons) for each in group] for group in played]

        first = outcomes()
        assert first == outcomes()
    assert all(len({start for _, start, _, _ in group}) == 1 for group in first)
    assert sum(len({passed for passed, _, _, _ in group}) == 2 for group in first) >= 3


# Conditions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latency", "rate", "expected"),
    [
        (None, None, CLEAR),
        ("20-80", 0.25, Conditions(20, 80, 250_000)),
        ("50", 0, Conditions(50, 50, 0)),
        (" 1 - 2 ", 1, Conditions(1, 2, 1_000_000)),
        (f"0-{LONGEST_MS}", 0.000001, Conditions(0, LONGEST_MS, 1)),
    ],
)
def test_conditions_are_read_as_they_are_typed(latency: str | None, rate: float | None, expected: Conditions) -> None:
    read = read_conditions(latency, rate)
    assert read == expected
    assert read_conditions(read.latency, read.failure_rate) == expected


@pytest.mark.parametrize(
    ("latency", "rate"),
    [("80-20", 0), ("x", 0), ("-5", 0), ("1-", 0), ("1-2-3", 0), ("٣", 0), ("0-60001", 0), ("9" * 40, 0),
     ("1", 1.5), ("1", -0.1), ("1", float("nan")), ("1", float("inf"))],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_in_words(latency: str, rate: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_conditions(latency, rate)


def test_a_fate_follows_from_seed_index_and_number_and_comes_as_often_as_it_is_said() -> None:
    rough = Conditions(20, 80, 300_000)
    met = [fate(rough, seed=seed, repeat=0, number=number) for seed in range(40) for number in range(1, 101)]
    assert met == [fate(rough, seed=seed, repeat=0, number=number) for seed in range(40) for number in range(1, 101)]
    assert met != [fate(rough, seed=seed, repeat=1, number=number) for seed in range(40) for number in range(1, 101)]
    assert {each.delay_ms for each in met} == set(range(20, 81))
    assert abs(sum(each.is_refused for each in met) / len(met) - 0.3) < 0.03
    assert fate(CLEAR, seed=1, repeat=1, number=1) == UNHARMED


def test_an_instance_has_the_sites_conditions_or_its_own_until_it_is_made_anew() -> None:
    rough, worse = Conditions(0, 0, 400_000), Conditions(0, 0, 1_000_000)
    instances = Instances(Harbour, conditions=rough)
    one, two = instances.mint(5), instances.mint(5)
    pattern = [instances.arrival(one).is_refused for _ in range(30)]
    assert pattern == [instances.arrival(two).is_refused for _ in range(30)]
    assert set(pattern) == {True, False}
    instances.expose(one, worse)
    assert (instances.conditions(one), instances.conditions(two)) == (worse, rough)
    assert all(instances.arrival(one).is_refused for _ in range(10))
    instances.restart(one, 5)
    assert instances.conditions(one) == rough
    assert [instances.arrival(one).is_refused for _ in range(30)] == pattern
    assert instances.arrival("none") == UNHARMED
