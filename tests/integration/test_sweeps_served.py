"""Sweeps whose weights nobody serves: refused before they are planned, and before they are played."""

from __future__ import annotations

from typing import cast

import pytest

from agents.envs.environment import Environment
from agents.executors.by_weights import ByWeights
from agents.executors.errors import NotServed
from agents.executors.policy import PolicyExecutor
from agents.models.scripted import Scripted
from agents.rollouts.dispatching.durable import Terms
from agents.rollouts.dispatching.queue import JobTicket
from agents.rollouts.dispatching.state_keys import independent
from agents.rollouts.sweep import SeedSweep
from api.cli.output import TerminalReporter
from api.course import Course
from api.house import House
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import play_sweep
from api.sweeps.worker import SiteRunner
from eventlog.errors import FlywheelError
from tests.integration.test_rollouts import MADE

NOBODY = ByWeights({})
NOWHERE = cast("Environment", None)
"""It is refused before a site is asked for anything."""


def test_a_sweep_is_refused_before_it_is_planned_or_played_where_nobody_serves_its_weights(empty_house: House) -> None:
    first_facts(empty_house)
    generator = SeedSweep("s1", MADE[:1], [1], 1)
    with pytest.raises(NotServed, match="weights base"):
        plan(empty_house, empty_house.views(), "anywhere", generator, rng_seed=7, executor=NOBODY)
    assert "SweepPlanned" not in empty_house.store.counts()
    served = ByWeights({"base": PolicyExecutor(Scripted([]))})
    planned = plan(empty_house, empty_house.views(), "anywhere", generator, rng_seed=7, executor=served)
    with pytest.raises(NotServed):
        play_sweep(empty_house, NOWHERE, planned, Course(), TerminalReporter(), NOBODY)
    lost: list[FlywheelError] = []
    runner = SiteRunner(empty_house, NOWHERE, "anywhere", Terms(), lost.append, NOBODY)
    (spec,) = planned.specs
    with pytest.raises(NotServed):
        runner.play(JobTicket("s1", spec.spec_id), independent(spec.spec_id))
    assert not {"RunStarted", "RunMissing"} & empty_house.store.counts().keys()
