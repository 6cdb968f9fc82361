"""A plan in free text through a real model server into PostgreSQL, swept and replayed; another process asks nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.envs.sites.marketplace.tasks import TASKS
from agents.learning.memory import forget_everything
from agents.models.openai import OpenAI, OpenAISettings
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.decompose import decompose
from agents.rollouts.play import Job
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.course import Course
from api.history.replay import replay_run
from api.house import House
from api.sweeps.jobs import play_jobs
from benchmarks.shipped import PLANS
from eventlog.events import SweepPlanned, Template
from eventlog.store import Append
from projections.rewards import REWARDS
from tests.conftest import Database
from tests.golden.make import Quiet
from tests.model_server import model_server
from tests.unit.test_agent_samples import EMPTY

from .test_cli import Flywheel, flywheel, shown

__all__ = ["flywheel"]

TASK = "marketplace.phone_reveal"
TEXT = (
    "Open the boats, look for a Sea Ray of a private owner in Florida, the cheapest first, and show its phone number."
)
SEED = next(seed for seed in range(9) if drift_family(seed) is CANONICAL)
ANSWER = json.dumps({"steps": [step.model_dump() for step in PLANS[TASK]]})

AGAIN = f"""
import json
from api.house import open_house
from api.settings import read_settings
from agents.models.scripted import Scripted
from agents.rollouts.decompose import decompose_text

model = Scripted([])
model.name = "openai:m1"
house = open_house(read_settings())
plan = decompose_text({TEXT!r}, model, house.store, house.blobs)
house.close()
print(json.dumps([len(model.requests), [step.model_dump() for step in plan]]))
"""


def test_a_file_of_free_texts_is_swept_from_the_command_line_and_the_model_asked_once(
    flywheel: Flywheel, empty_house: House, empty_database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    free = Template(template_id=TASK, cluster="c", oracle_task_id=TASK, instruction="Show a number.", plan_text=TEXT)
    other = free.model_copy(update={"template_id": "other", "plan_text": "something else"})
    file = tmp_path / "templates.json"
    file.write_text(json.dumps([free.model_dump(mode="json"), other.model_dump(mode="json")]))
    sweep = ("rollout", "sweep", "--templates", str(file), "--task", TASK, "--seeds", str(SEED), "--siblings", "1")
    assert "FLYWHEEL_MODEL is not set" in flywheel(*sweep)[2]
    with model_server(lambda _: ANSWER) as server:
        monkeypatch.setenv("FLYWHEEL_MODEL", "m1")
        monkeypatch.setenv("FLYWHEEL_MODEL_URL", server.url)
        found = [shown(flywheel, *sweep) for _ in range(2)]
        assert len(server.asked) == 1
    assert [(each["graded"], each["passed"]) for each in found] == [(1, 1), (1, 1)]
    planned_ones = [recorded.event for recorded in empty_house.store.read(types=["SweepPlanned"])]
    assert {each.templates for each in planned_ones if isinstance(each, SweepPlanned)} == {
        (free.model_copy(update={"plan_steps": PLANS[TASK]}),)
    }


def test_a_free_text_is_decomposed_once_for_all_processes_and_then_swept(
    empty_house: House, empty_database: Database, marketplace: EnvClient
) -> None:
    instruction = next(task.instruction for task in TASKS if task.task_id == TASK)
    free = Template(template_id=TASK, cluster="c", oracle_task_id=TASK, instruction=instruction, plan_text=TEXT)
    with model_server(lambda _: ANSWER) as server:
        with closing(OpenAI(OpenAISettings(model="m1", base_url=server.url))) as model:
            made = decompose(free, model, empty_house.store, empty_house.blobs)
        assert len(server.asked) == 1
        assert server.asked[0].body["temperature"] == 0
        assert server.asked[0].body["messages"][1]["content"] == TEXT
    environment = {**os.environ, "FLYWHEEL_DATABASE_URL": empty_database.app_url}
    again = subprocess.run([sys.executable, "-c", AGAIN], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout) == [0, [step.model_dump() for step in PLANS[TASK]]]

    empty_house.blobs.put([forget_everything("base")[1]])
    sweep = plan_sweep(SeedSweep("s1", [made], [SEED]), "marketplace", EMPTY, rng_seed=7)
    empty_house.store.append(
        [Append("prices", (DEFAULT_PRICES,), "test"), Append(f"sweep/{sweep.sweep}", (sweep,), "test")]
    )
    (job,) = (Job(spec, made, "marketplace", EMPTY, (), None, None, learns=True) for spec in sweep.specs)
    play_jobs(empty_house, marketplace, "sweep", [job], Course(), Quiet())
    assert empty_house.views().find(REWARDS)[job.run].passed
    (event,) = (recorded.event for recorded in empty_house.store.read(types=["SweepPlanned"]))
    assert isinstance(event, SweepPlanned)
    assert (event.templates[0].plan_text, event.templates[0].plan_steps) == (TEXT, PLANS[TASK])
    found = replay_run(empty_house.store, empty_house.blobs, empty_house.views, job.run)
    assert (found.outcome, found.divergence) == ("identical", None)
    assert "plan" in found.compared
