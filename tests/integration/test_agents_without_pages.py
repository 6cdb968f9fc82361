"""Agents that are not ours where there are no pages: they act by name, and the environment grades what they did."""

from __future__ import annotations

import json
import random
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.envs.contract import Instance
from agents.envs.episodes.environment import EpisodeEnvironment
from agents.envs.episodes.episode import ActionSpec, EpisodeKind, Turn, UnfitArgument
from agents.envs.errors import EnvironmentDown
from agents.executors.episodes.surface import on_episodes
from agents.executors.executor import Assignment, ExecutedStep, Execution, Watch, no_verification
from agents.executors.outside.action_access import LONGEST_ACTION, UnfitAction, read_action, serve_actions
from agents.executors.outside.agent_spec import read_agent
from agents.executors.outside.executor import AgentExecutor
from agents.executors.outside.recorded_site import serve_record
from agents.executors.outside.task_facts import AgentLimits
from agents.executors.site_record import read_site_record
from eventlog.events import Step

AGENTS = """
import json, os, urllib.request

def climb(task):
    assert task.url is None and task.seen == "floor 0" and [each["name"] for each in task.actions] == ["up", "say"]
    answer = {"is_over": False}
    while not answer["is_over"]:
        answer = task.act("up", None)

def blunder(task):
    found = [task.act("fly"), task.act("say", "nothing"), task.act("say", {"floor": 0})]
    with open("found.json", "w") as file:
        json.dump(found, file)

def stay(task):
    with open("address.txt", "w") as file:
        file.write(task.act_url)

def think(task):
    for thought in range(3):
        task.act("up")
        task.step("think", argument=str(thought))

def program():
    body = json.dumps({"action": "up"}).encode()
    for _ in range(3):
        urllib.request.urlopen(os.environ["FLYWHEEL_ACT_URL"], body).read()
    assert os.environ["FLYWHEEL_SEEN"] == "floor 0"

if __name__ == "__main__":
    program()
"""


DOWN = EnvironmentDown(url="the tower", operation="act", actual="it fell", timeout_s=1)


@dataclass
class Tower:
    """A house with three floors: whoever is on the third is done."""

    floor: int = 0
    falls_at: int = 9
    fall: Exception = DOWN

    @property
    def observation(self) -> str:
        return f"floor {self.floor}"

    @property
    def solution(self) -> None:
        return None

    def act(self, action: str, argument: str | None) -> Turn:
        if self.floor == self.falls_at:
            raise self.fall
        if action == "say" and not (argument or "").startswith("{"):
            raise UnfitArgument("say something that is JSON")
        self.floor += action == "up"
        return Turn(self.observation, 1_000_000 if self.floor == 3 else 0, is_over=self.floor == 3)

    def sample_action(self, _rng: random.Random) -> tuple[str, str | None]:
        return "up", None

    def close(self) -> None:
        """Nothing to free."""


def play(
    folder: Path, option: str, max_steps: int = 10, watch: Watch = no_verification, **tower: Any
) -> tuple[Execution, EpisodeEnvironment, bool]:
    (folder / "climbers.py").write_text(AGENTS, "utf-8")
    actions = (ActionSpec("up", "go up", "none"), ActionSpec("say", "say something", "json"))
    kind = EpisodeKind("tower", "Climb.", actions, lambda _seed: Tower(**tower))
    environment = EpisodeEnvironment(kind)
    agent, limits = read_agent(option, folder), AgentLimits(seconds=60)
    executor = AgentExecutor(agent, limits, surfaces=on_episodes(environment), records_site=True)
    assert not executor.walks_pages
    instance = environment.reset(1)
    done = executor.execute(Assignment(kind.instruction, (), max_steps), instance, watch)
    return done, environment, environment.oracle(instance, "tower").passed


@pytest.mark.parametrize("option", ["python:climbers:climb", f"command:{sys.executable} climbers.py"])
def test_what_an_agent_does_by_name_is_done_recorded_and_graded(tmp_path: Path, option: str) -> None:
    done, _, passed = play(tmp_path, option)
    assert (passed, done.status, len(done.taken)) == (True, "completed", 4)
    first = done.taken[0]
    assert first.step == Step(type="act", intent="take the action up", label="up", value=None)
    assert (first.outcome, first.text, done.taken[2].text) == ("ok", "floor 1", "floor 3")


def test_what_the_environment_cannot_take_is_an_outcome(tmp_path: Path) -> None:
    done, _, passed = play(tmp_path, "python:climbers:blunder")
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert [each["outcome"] for each in found] == ["no_such_action", "invalid_argument", "ok"]
    assert [each.outcome for each in done.taken[:3]] == ["no_such_action", "invalid_argument", "ok"]
    assert done.taken[2].step.value == '{"floor": 0}'
    assert (passed, done.status) == (False, "completed")


@pytest.mark.parametrize(
    ("option", "differs_at"), [("blunder", None), ("climb", "action 0"), ("stay", None), ("think", None)]
)
def test_an_agent_is_answered_from_the_record_as_long_as_it_does_the_same(
    tmp_path: Path, option: str, differs_at: str | None
) -> None:
    done, _, _ = play(tmp_path, "python:climbers:think" if option == "think" else "python:climbers:blunder")
    assert done.site is not None
    blob = done.site.blob()
    record = read_site_record(blob.digest, blob)
    assert record == done.site
    assert (record.seen, len(record.exchanges["actions"])) == ("floor 0", 3)
    assert [step.step.type for step in done.taken if step.index in record.acted] == ["act"] * 3
    nowhere = Instance.model_validate({"seed": 0, "instance": "recorded", "url": None})
    with serve_record(record) as site:
        agent, limits = read_agent(f"python:climbers:{option}", tmp_path), AgentLimits(seconds=60)
        again = AgentExecutor(agent, limits, told=site.facts()).execute(Assignment("Climb.", (), 10), nowhere)
    assert (None if site.other is None else site.other.where) == differs_at
    assert len(site.list_unasked()) == (0 if option in {"blunder", "think"} else 3)
    if option in {"blunder", "think"}:
        reported = [step.step for step in done.taken if step.index not in record.acted]
        assert [step.step for step in again.taken] == reported


def test_beyond_its_steps_nothing_is_done_any_more(tmp_path: Path) -> None:
    done, _, passed = play(tmp_path, "python:climbers:climb", max_steps=2)
    assert (passed, done.status, [each.text for each in done.taken[:-1]]) == (
        False,
        "out_of_budget",
        ["floor 1", "floor 2"],
    )


def test_an_environment_that_fails_is_not_the_agents_failure(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentDown, match="it fell"):
        play(tmp_path, "python:climbers:climb", falls_at=1)
    with pytest.raises(ZeroDivisionError, match="no floor"):
        play(tmp_path, "python:climbers:climb", falls_at=1, fall=ZeroDivisionError("no floor"))


@pytest.mark.parametrize("failure", [DOWN, ZeroDivisionError("no record")])
def test_a_step_check_that_fails_is_not_the_agents_failure(tmp_path: Path, failure: Exception) -> None:
    def watch(_step: ExecutedStep) -> None:
        raise failure

    with pytest.raises(type(failure), match=r"it fell|no record"):
        play(tmp_path, "python:climbers:climb", watch=watch)


def test_after_its_run_an_address_is_good_for_nothing(tmp_path: Path) -> None:
    play(tmp_path, "python:climbers:stay")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen((tmp_path / "address.txt").read_text("utf-8"), b"{}")  # noqa: S310 ours


def test_another_path_is_refused_and_a_body_that_is_no_action_changes_nothing() -> None:
    taken: list[str] = []

    def take(action: str, _argument: str | None) -> dict[str, object]:
        taken.append(action)
        return {"outcome": "ok"}

    with serve_actions(take) as address:
        for url, body, status in (
            (address[:-1], b'{"action": "up"}', 404),
            (address, b"up", 400),
            (address, b"x" * (LONGEST_ACTION + 1), 400),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url, body)  # noqa: S310 ours
            refused.value.close()
            assert refused.value.code == status
        assert taken == []
        with urllib.request.urlopen(address, b'{"action": "up"}') as answer:  # noqa: S310 ours
            assert json.load(answer) == {"outcome": "ok"}
    assert taken == ["up"]


@pytest.mark.parametrize(
    "body", [b"[]", b'{"action": 1}', b'{"action": "a", "argument": 3}', b'{"action": "a\\u0000"}', b"[" * 9_999]
)
def test_a_body_without_an_action_is_told_so(body: bytes) -> None:
    with pytest.raises(UnfitAction):
        read_action(body)
