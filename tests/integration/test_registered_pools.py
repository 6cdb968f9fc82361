"""A pool that was registered: its name is enough for every command, which starts its processes by itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.envs.admission import admit, record
from agents.envs.pool import PooledSite
from agents.envs.probing.probes import tasks_digest
from api.environments.connect import placed_at
from api.house import House
from eventlog.events import EnvironmentProbed, EnvironmentRegistered, ProbeResult
from projections.environments import ENVIRONMENTS
from tests.chandlery import TASK

from .test_cli import Flywheel, flywheel
from .test_pools import DIALECT

__all__ = ["flywheel"]

SUITE = f"""
name = "chandlery"
environment = "chandlery"

[seeds]
training = "0-99"
sealed = "200-299"

[[tasks]]
id = "{TASK}"
plan = [
  {{ type = "navigate", intent = "open the shop", url = "/shop" }},
  {{ type = "click", intent = "take the cheapest", label = " for " }},
  {{ type = "fill_field", intent = "say where to", label = "Ship to", value = "the quay" }},
  {{ type = "select_option", intent = "agree", label = "Terms", value = "checked" }},
  {{ type = "select_option", intent = "pay at once", label = "Payment", value = "Now" }},
  {{ type = "submit", intent = "order it", label = "Order" }},
]
"""
COMMAND = f"{sys.executable} -m tests.chandlery {{port}}"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder in which the command of the pool finds its module."""
    monkeypatch.chdir(Path(__file__).parents[2])


def registering(folder: Path, *more: str) -> list[str]:
    dialect, suite = folder / "chandlery.json", folder / "chandlery.toml"
    dialect.write_text(json.dumps(DIALECT.model_dump(mode="json")))
    suite.write_text(SUITE)
    words = ["env", "add", "chandlery", "--command", COMMAND, "--variable", "SEED={seed}"]
    return [*words, "--dialect", str(dialect), "--suite", str(suite), *more]


def admitted(house: House) -> None:
    with placed_at(house, "chandlery") as placed:
        assert isinstance(placed.environment, PooledSite)
        tasks = placed.environment.health().tasks
    probes = ProbeResult(name="two_seeds", outcome="passed", detail="made up by a test")
    event = EnvironmentProbed(
        environment="chandlery",
        url=None,
        tasks=tuple(task.task_id for task in tasks),
        tasks_digest=tasks_digest(tasks),
        probes=(probes,),
        seeds=(0,),
        rng_seed=0,
        fingerprints=(),
    )
    record(house.store, event, "test")
    admit(house.store, house.views().find(ENVIRONMENTS)["chandlery"], "test", "a test needs it")


@pytest.mark.writes
def test_the_name_of_a_registered_pool_is_enough_to_play_it(flywheel: Flywheel, house: House, tmp_path: Path) -> None:
    code, out, err = flywheel(*registering(tmp_path, "--processes", "2"))
    assert (code, "chandlery is registered" in out) == (0, True), err
    (event,) = [each.event for each in house.store.read(types=["EnvironmentRegistered"])]
    assert isinstance(event, EnvironmentRegistered)
    assert event.pool is not None
    assert (event.url, event.pool.processes, event.pool.variables) == (None, 2, (("SEED", "{seed}"),))
    admitted(house)
    code, _, err = flywheel("rollout", "sweep", "chandlery", "--seeds", "3-4", "--siblings", "1")
    assert code == 0, err
    runs = {each["run"]: each["passed"] for each in _shown(flywheel, "runs", "list", "--sweep", "chandlery-1")}
    assert list(runs.values()) == [True, True]
    sealed = _shown(flywheel, "benchmark", "freeze", "ropes", "--site", "chandlery", "--sealed", "3", "--visible", "1")
    seeds = {task["is_sealed"]: task["env_seed"] for task in sealed["tasks"]}
    assert 200 <= seeds[True] <= 299
    assert 90 <= seeds[False] <= 99
    code, _, err = flywheel("rollout", "sweep", "chandlery", "--seeds", "200-201", "--siblings", "1")
    assert (code, "chandlery" in err) == (64, True)


@pytest.mark.reads
@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("--url", "http://127.0.0.1:9"), 64, "a pool starts the site itself"),
        (("--variable", "SEED"), 64, "a variable is NAME=TEXT"),
        (("--variable", "KEY=$FLYWHEEL_ENV_NONE"), 64, "FLYWHEEL_ENV_NONE is not set"),
        (("--suite", "none"), 64, "none"),
    ],
)
def test_a_pool_that_cannot_be_registered_leaves_nothing(
    more: tuple[str, ...], code: int, told: str, flywheel: Flywheel, house: House, tmp_path: Path
) -> None:
    head = house.store.head()
    found, _, err = flywheel(*registering(tmp_path, *more))
    assert (found in {code, 1}, told in " ".join(err.split())) == (True, True), err
    assert house.store.head() == head


@pytest.mark.reads
def test_a_pool_whose_dialect_names_another_site_is_not_registered(
    flywheel: Flywheel, house: House, tmp_path: Path
) -> None:
    head, words = house.store.head(), registering(tmp_path)
    Path(words[words.index("--dialect") + 1]).write_text(json.dumps(DIALECT.model_dump(mode="json") | {"site": "quay"}))
    code, _, err = flywheel(*words)
    assert (code, "says that it is 'quay': expected 'chandlery'" in " ".join(err.split())) == (1, True), err
    assert house.store.head() == head


def _shown(flywheel: Flywheel, *words: str) -> Any:
    code, out, err = flywheel(*words, "--json")
    assert code == 0, err
    return json.loads(out)
