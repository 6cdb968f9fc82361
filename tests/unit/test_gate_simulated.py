"""The benchmark of the gate simulates through the real judge; what it leaves out to save time changes no answer."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.gate.simulating import DECIDING, EARLY, MARGIN, QUESTIONS, UNVETOED, Job, asked, cannot_promote
from benchmarks.gate.worlds import BASE, BETTER, World, chances, confirmed, frozen, simulate_arms
from eventlog.events import Rules
from gate.alpha import Alpha
from gate.judge import judge, screen

WORLDS = [
    World(60, challenger, is_uneven=is_uneven, is_lacking=is_lacking)
    for challenger in (BASE, BETTER)
    for is_uneven in (False, True)
    for is_lacking in (False, True)
]
SPENT = Alpha(1, 200_000, 200_000)


@pytest.mark.parametrize("world", WORLDS, ids=repr)
@pytest.mark.parametrize("rules", [DECIDING, EARLY, UNVETOED], ids=["sign flip", "e-process", "seeds"])
def test_what_is_not_judged_would_not_have_been_promoted(world: World, rules: Rules) -> None:
    rng, rules = np.random.default_rng(3), rules.model_copy(update={"bootstrap_samples": 50})
    skipped = 0
    for _ in range(25):
        found = simulate_arms(world, chances(world, rng), rng)
        verdict = judge(found.champion, found.challenger, frozen(60, 3), rules, SPENT)
        if cannot_promote(world, found, rules, SPENT.alpha):
            skipped += 1
            assert verdict.decision != "promote"
            assert screen(found.champion, found.challenger, frozen(60, 3), rules, SPENT) == ()
    if world.challenger == BASE:
        assert skipped > 0


@pytest.mark.parametrize("world", WORLDS, ids=repr)
def test_the_mean_difference_is_that_of_the_verdict(world: World) -> None:
    rng = np.random.default_rng(5)
    for _ in range(25):
        found = simulate_arms(world, chances(world, rng), rng)
        verdict = judge(found.champion, found.challenger, frozen(60, 3), DECIDING, SPENT)
        assert verdict.mean_delta is not None
        assert found.falls_short(MARGIN) == (verdict.mean_delta < 20_000)
        assert verdict.missing == (9 if world.is_lacking else 0)


def test_uneven_tasks_have_the_same_means_and_spread_as_they_should() -> None:
    truth = chances(World(100_000, is_uneven=True), np.random.default_rng(1))
    assert truth.champion.mean() == pytest.approx(BASE, abs=0.005)
    assert truth.challenger.mean() == pytest.approx(BETTER, abs=0.005)
    assert truth.champion.var() == pytest.approx(BASE * (1 - BASE) / 5, abs=0.002)
    assert (truth.challenger >= truth.champion).all()


def test_fresh_repeats_have_the_chances_of_their_instance() -> None:
    world, rng = World(60, has_regression=True), np.random.default_rng(2)
    truth = chances(world, rng)
    found = confirmed(world, truth, simulate_arms(world, truth, rng), (("t0", 0), ("t4", 11)), 2_000, rng)
    passed = [
        sum(arm.confirming[*place, 3 + index].passed for index in range(2_000)) / 2_000
        for arm in (found.champion, found.challenger)
        for place in (("t0", 0), ("t4", 11))
    ]
    assert passed == pytest.approx([0.9, BASE, 0.1, BETTER], abs=0.05)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_answered_the_same_when_asked_again(question: str) -> None:
    job = Job(question, World(60, has_regression=True), 200_000, 2, 4)
    counts = asked(job)
    assert counts == asked(job)
    assert all(0 <= yes <= of <= 2 for yes, of in counts.values())
