"""A site's own MCP tools as the actions of a policy, from the command line to the oracle's grade."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import typer

from api.cli.agent_options import SightName, sight_of
from api.cli.main import run_command
from api.history.replay import replay_run
from api.house import House
from api.sweeps.executors import Way, options_of
from eventlog.events import Event, RewardGraded, RunMissing, RunStarted, StepTaken, SweepPlanned
from tests.conftest import Database
from tests.model_server import Asked, ModelServer, model_server
from tests.own_agent import model_settings
from tests.own_site import TOKEN, OwnSite, blocks, serve_own_site

E = TypeVar("E", bound=Event)
Flywheel = Callable[..., tuple[int, str]]
SWEEP = ("rollout", "sweep", "shop", "--executor", "policy", "--sight", "tools", "--seeds", "0-1", "--siblings", "1")


def say(action: str, **given: str) -> str:
    return json.dumps({"why": "it is next", "action": action, "argument": json.dumps(given) if given else ""})


def shop_by_tools(asked: Asked) -> str:
    """Tries a tool that is not there and a jacket that is not sold, then buys the cheapest one."""
    said = [text for text in ("The actions are", "no jacket is called", "Bought.") if text in asked.text]
    prices = re.findall(r'"(jacket-\d+)": (\d+)', asked.text)
    match (said, bool(prices)):
        case ([], _):
            return say("fly", to="Rome")
        case (["The actions are"], _):
            return say("buy", jacket="coat")
        case ([_, "no jacket is called"], False):
            return say("list_jackets")
        case ([_, "no jacket is called"], True):
            return say("buy", jacket=min(prices, key=lambda each: int(each[1]))[0])
    return say("finish")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[OwnSite]:
    (own,) = blocks("python", Path("docs/tutorial-own-site.md"))
    code = own.partition("class Shop")[0] + (Path(__file__).parents[1] / "tool_shop.py").read_text("utf-8")
    with serve_own_site(tmp_path, code=code) as site:
        yield site


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(shop_by_tools) as running:
        yield running


@pytest.fixture
def flywheel(
    shop: OwnSite,
    model: ModelServer,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Flywheel:
    own = {
        "FLYWHEEL_DATABASE_URL": empty_database.app_url,
        "FLYWHEEL_OWNER_URL": empty_database.owner_url,
        "FLYWHEEL_KEYS": str(empty_database.keys),
        TOKEN: shop.token,
        **model_settings(model.url),
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    tasks = tmp_path / "tasks.toml"
    tasks.write_text('name = "errands"\nenvironment = "shop"\n\n[[tasks]]\nid = "shop.buy"\n', "utf-8")

    def run(*words: str) -> tuple[int, str]:
        code = run_command(list(words))
        return code, "".join(capsys.readouterr())

    assert run("env", "add", "shop", *shop.place, "--suite", str(tasks))[0] == 0
    code, said = run("env", "probe", "shop")
    assert code == 0, said
    return run


def events(house: House, kind: type[E]) -> list[E]:
    return [each.event for each in house.store.read(types=[kind.__name__]) if isinstance(each.event, kind)]


def test_a_policy_calls_the_tools_of_a_site_and_each_call_is_a_step_of_a_run_that_the_oracle_grades(
    flywheel: Flywheel, model: ModelServer, empty_house: House
) -> None:
    code, said = flywheel(*SWEEP, "--sweep", "called")
    assert code == 0, said
    house = empty_house
    assert [each.passed for each in events(house, RewardGraded)] == [True, True]
    assert {each.executor for each in events(house, RunStarted)} == {"policy-tools"}
    first = [each for each in events(house, StepTaken) if each.run.endswith("seed0__s0")]
    assert [(each.action, each.outcome) for each in first] == [
        ("buy", "invalid_argument"),
        ("list_jackets", "ok"),
        ("buy", "ok"),
        ("finish", "ok"),
    ]
    prompt = next(each.text for each in model.asked if "list_jackets" in each.text)
    assert (
        "- list_jackets: the site says of it “List the jackets with their prices in dollars.”; argument is empty"
        in prompt
    )
    assert '"jacket": {"title": "Jacket", "type": "string"}' in prompt
    (planned,) = events(house, SweepPlanned)
    again = replay_run(house.store, house.blobs, house.views, planned.specs[0].spec_id)
    assert (again.divergence, {"told", "calls", "steps", "end"} - set(again.compared)) == (None, set())
    assert options_of(planned) == "--executor policy --sight tools --model my-model"


def test_a_course_of_a_policy_plays_by_the_tools_of_the_site(flywheel: Flywheel, empty_house: House) -> None:
    code, said = flywheel("run", "--site", "shop", *SWEEP[3:7], "--rounds", "1", "--seeds", "1")
    assert code == 0, said
    graded = [each for each in events(empty_house, RewardGraded) if each.run.startswith("shop-1__")]
    assert {each.passed for each in graded} == {True}
    assert {each.executor for each in events(empty_house, RunStarted)} == {"policy-tools"}
    assert {each.executor for each in events(empty_house, SweepPlanned)} == {"policy-tools"}


def test_a_site_without_tools_makes_the_run_missing_and_says_what_was_asked(
    flywheel: Flywheel, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.executors.site_tools.PLACE", "nothing-here")
    _, said = flywheel(*SWEEP, "--sweep", "bare")
    missing = events(empty_house, RunMissing)
    assert len(missing) == 2
    assert all("tools/list" in each.detail for each in missing), said


def test_tools_are_for_a_policy_alone() -> None:
    assert sight_of(SightName.TOOLS, Way.POLICY) == "tools"
    with pytest.raises(typer.BadParameter, match="--sight tools is for a policy"):
        sight_of(SightName.TOOLS, Way.PLAN)
