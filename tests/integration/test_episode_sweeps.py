"""A data set of questions in the whole house: probed, admitted, swept by a policy, and graded."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from agents.executors.policy import PolicyExecutor
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.environments.admission import admit_at_first_use, see_admission
from api.environments.connect import placed_at
from api.errors import WrongWay
from api.house import House
from api.sweeps.executors import Way, executor_of
from api.sweeps.plan import first_facts, plan, site_templates
from api.sweeps.play import play_sweep
from eventlog.events import RewardGraded, StepTaken
from projections.environments import ENVIRONMENTS
from tests.golden.make import Quiet

SUMS = "reasoning-gym.chain_sum.max_digits-1.max_terms-2"


def answer(request: CompletionRequest) -> str:
    """The right sum at every other seed of the sampling, else a sentence around it."""
    first, sign, second = re.findall(r"(\d+) ([+-]) (\d+)", request.messages[1].text)[0]
    result = str(int(first) + int(second) if sign == "+" else int(first) - int(second))
    return result if (request.sampling.seed or 0) % 2 else f"The result is {result}."


def test_questions_are_admitted_swept_and_graded(empty_house: House) -> None:
    house = empty_house
    with placed_at(house, SUMS) as placed:
        assert placed.is_ours
        assert placed.inside is not None
        executor = PolicyExecutor(Scripted(answer), opening=placed.inside.opening)
        first_facts(house)
        see_admission(house, placed.environment, SUMS, partial(admit_at_first_use, placed=placed, reporter=Quiet()))
        state = house.views().get(ENVIRONMENTS, SUMS)
        assert state is not None
        assert state.failed_probes == ()
        templates = site_templates(placed.environment)
        planned = plan(
            house, house.views(), SUMS, SeedSweep("sums-1", templates, range(4), 6), rng_seed=0, executor=executor
        )
        play_sweep(house, placed.environment, planned, Course(max_parallel=2), Quiet(), executor)
    events = [recorded.event for recorded in house.store.read()]
    graded = [event for event in events if isinstance(event, RewardGraded)]
    taken = [event for event in events if isinstance(event, StepTaken)]
    assert len(graded) == len(taken) == 24
    assert {event.action for event in taken} == {"answer"}
    assert all(event.argument is not None and house.blobs.get(event.argument).body for event in taken)
    assert 0 < sum(event.passed for event in graded) < 24


@pytest.mark.parametrize("way", [Way.PLAN, Way.DEMONSTRATION])
def test_only_a_policy_acts_where_there_are_no_pages(empty_house: House, way: Way, tmp_path: Path) -> None:
    with (
        placed_at(empty_house, SUMS) as placed,
        pytest.raises(WrongWay, match="policy"),
        executor_of(way, empty_house.settings, inside=placed.inside),
    ):
        pass
