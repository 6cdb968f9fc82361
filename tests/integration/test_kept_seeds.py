"""What is kept to judge with is played by no sweep, whichever way it is planned."""

from __future__ import annotations

import pytest

from agents.rollouts.biased import FailureBiased
from agents.rollouts.dispatching.queue import RolloutQueue
from agents.rollouts.errors import BenchmarkInstance
from agents.rollouts.sweep import Generator, SeedSweep, extend_group, plan_sweep
from api.course import Course
from api.house import House
from api.sweeps.plan import extend, first_facts, plan
from tests.integration.test_rollouts import MADE
from tests.unit.test_agent_samples import EMPTY

DRAWN = FailureBiased("s1", {MADE[0].cluster: MADE[:1]}, {MADE[0].cluster: 1}, [10_003], 1, 1, 7)


@pytest.mark.parametrize("generator", [SeedSweep("s1", MADE[:1], [1, 9_003]), DRAWN], ids=["swept", "biased"])
@pytest.mark.parametrize("is_queued", [False, True], ids=["played", "queued"])
def test_no_sweep_is_planned_over_kept_seeds(empty_house: House, generator: Generator, *, is_queued: bool) -> None:
    first_facts(empty_house)
    queue = RolloutQueue(empty_house.engine, "anywhere")
    with pytest.raises(BenchmarkInstance, match=f"{MADE[0].oracle_task_id} of anywhere at seed"):
        plan(empty_house, empty_house.views(), "anywhere", generator, rng_seed=7, queue=queue if is_queued else None)
    assert "SweepPlanned" not in empty_house.store.counts()
    assert queue.open() == 0


def test_seeds_beside_them_are_planned(empty_house: House) -> None:
    first_facts(empty_house)
    event = plan(empty_house, empty_house.views(), "anywhere", SeedSweep("s1", MADE[:1], [8_999, 9_004]), rng_seed=7)
    assert [spec.env_seed for spec in event.specs] == [8_999, 9_004]


def test_no_sibling_is_added_on_a_kept_seed(empty_house: House) -> None:
    seed = Course().sealed_seeds[-1]
    event = plan_sweep(SeedSweep("s1", MADE[:1], [seed]), "anywhere", EMPTY, rng_seed=7)
    more = extend_group("s1", MADE[:1], event.specs, 2)
    with pytest.raises(BenchmarkInstance, match=f"seed {seed}"):
        extend(empty_house, empty_house.views(), event, more, "test")
    assert empty_house.store.counts() == {}
