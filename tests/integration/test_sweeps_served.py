"""Sweeps whose weights nobody serves: refused before they are planned, and before they are played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from agents.envs.environment import Environment
from agents.executors.by_weights import ByWeights
from agents.executors.errors import NotServed
from agents.executors.executor import Executor
from agents.executors.outside.agent_spec import read_agent
from agents.executors.policy import PolicyExecutor
from agents.learning.memory import forget_everything
from agents.models.scripted import Scripted
from agents.rollouts.dispatching.durable import Terms
from agents.rollouts.dispatching.queue import JobTicket
from agents.rollouts.dispatching.state_keys import independent
from agents.rollouts.sweep import SeedSweep
from api.cli.output import TerminalReporter
from api.controllers.delegation import journals_of
from api.controllers.fast import Controller
from api.course import Course
from api.house import House
from api.settings import Settings
from api.sweeps.executors import Way, executor_of, recorded_as
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import play_sweep
from api.sweeps.worker import SiteRunner
from eventlog.errors import FlywheelError
from eventlog.events import ChampionPointed, SweepPlanned
from eventlog.store import Append
from tests.integration.test_rollouts import MADE
from tests.outside import write_agents

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


CHECKPOINT = "3f9a1c22" + "0" * 56


@contextmanager
def before_one_endpoint(house: House, kind: str, folder: Path) -> Iterator[Executor]:
    """An executor before a server that loads no checkpoints, so that nobody knows by which weights it answers."""
    settings, agent = Settings(model="m", model_url="http://127.0.0.1:9"), None
    if kind == "agent":
        write_agents(folder)
        agent = read_agent("python:strangers:buy", folder)
    way = Way.PLAN if kind == "agent" else Way(kind)
    with executor_of(way, settings, agent=agent, journal_of=journals_of(house)) as executor:
        yield executor


@pytest.mark.parametrize("kind", ["agent", "policy", "delegation", "delegation-plan"])
def test_before_one_endpoint_nothing_is_recorded_as_a_run_of_a_checkpoint(
    kind: str, empty_house: House, tmp_path: Path
) -> None:
    house, site = empty_house, "anywhere"
    first_facts(house)
    tuned, memory = forget_everything(CHECKPOINT)
    house.blobs.put([memory])
    pointed = ChampionPointed(artifact=tuned, by="operator", reason="a trial", evaluation=None)
    house.store.append([Append("champion", (pointed,), "test")])
    generator, head = SeedSweep("s1", MADE[:1], [1], 1), house.store.head()
    refused = pytest.raises(NotServed, match=r"weights 3f9a1c22.*expected one of base.*FLYWHEEL_MODEL_BASE")
    with before_one_endpoint(house, kind, tmp_path) as executor:
        name, model = recorded_as(executor)
        (spec,) = generator.specs()
        planned = SweepPlanned(
            sweep="s1",
            environment=site,
            templates=MADE[:1],
            specs=(spec,),
            artifact=tuned,
            rng_seed=7,
            executor=name,
            model=model,
        )
        with refused:
            Controller(house, NOWHERE, site, Course(), TerminalReporter(), executor).run()
        with refused:
            plan(house, house.views(), site, generator, rng_seed=7, executor=executor)
        with refused:
            play_sweep(house, NOWHERE, planned, Course(), TerminalReporter(), executor)
    assert house.store.head() == head
