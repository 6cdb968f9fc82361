"""The slow loop of an agent that is not ours: the weights before it are trained on its own runs, and judged with it.

With both loops its memory and these weights have turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from agents.executors.outside.agent_spec import read_agent
from api.cli import run as cli
from api.cli.main import run_command
from api.cli.run_slow import go_slowly
from api.controllers.rounds import never
from api.controllers.slow_next import SlowCourse
from api.controllers.warmup_next import WarmingCourse
from api.course import Course
from api.environments.connect import placed_at
from api.house import House
from api.reporter import Advance
from api.training.errors import NoBase
from eventlog.events import (
    EvaluationOpened,
    LoopChosen,
    ModelCalled,
    Rules,
    RunMissing,
    RunStarted,
    SftConfig,
    SweepPlanned,
)
from eventlog.weights_folder import Base
from projections.checkpoints import WEIGHTS
from projections.verdicts import VERDICTS
from tests.conftest import Database
from tests.learned import with_models
from tests.own_agent import commands, write_own_agent
from tests.own_site import TOKEN, OwnSite, serve_own_site
from tests.tiny import make_base

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.usefixtures("stages_here"),
]

AGENT = '''
import json, re, urllib.request

ENDS = list("abcdefghijklmnopqrst")  # weights that were never trained end no answer


def play(task):
    """Asks its model once, and buys a jacket whatever the answer is."""
    asked = {"model": task.model.name, "messages": [{"role": "user", "content": task.instruction}], "seed": task.seed}
    body = json.dumps({**asked, "max_tokens": 100, "stop": ENDS}).encode()
    headers = {"Authorization": "Bearer " + task.model.key, "Content-Type": "application/json"}
    address = task.model.openai_base_url + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=60).read()
    with urllib.request.urlopen(task.url + "catalogue", timeout=10) as page:
        jacket = re.search(r'href="([^"]+/jacket-[0-9]+)"', page.read().decode())[1]
    urllib.request.urlopen(task.url.partition("/i/")[0] + jacket, b"", timeout=10).read()
'''
COURSE = SlowCourse(
    stages=(SftConfig(steps=1, learning_rate="0.01", rows_per_step=1),),
    max_rounds=1,
    sizes=Course(
        seeds_per_round=1,
        siblings=2,
        visible_seeds=(9_000,),
        sealed_seeds=tuple(range(10_000, 10_010)),
        max_parallel=2,
        rules=Rules(min_pairs=10),
    ),
)


@dataclass
class Listening:
    """A Reporter that keeps what is said."""

    said: list[str] = field(default_factory=list)

    def phase(self, _title: str, _total: int) -> AbstractContextManager[Advance]:
        return nullcontext(self.note)

    def note(self, *, note: str = "") -> None:
        """Nothing is shown."""

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    with serve_own_site(tmp_path_factory.mktemp("shop")) as site:
        yield site


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"), longest=512)


@pytest.fixture
def house(
    empty_house: House, empty_database: Database, shop: OwnSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> House:
    """A house whose log knows the shop, in a folder with the agent."""
    for name, value in {
        "FLYWHEEL_DATABASE_URL": empty_database.app_url,
        "FLYWHEEL_OWNER_URL": empty_database.owner_url,
        "FLYWHEEL_KEYS": str(empty_database.keys),
        TOKEN: shop.token,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    write_own_agent(tmp_path, has_client=False)
    tasks = tmp_path / "tasks.toml"
    tasks.write_text(tasks.read_text("utf-8").replace("10000-10039", "10000-10999"), "utf-8")  # room for both loops
    (tmp_path / "asking.py").write_text(AGENT, "utf-8")
    for words in commands(shop)[:2]:
        assert run_command(words) == 0
    return with_models(empty_house, tmp_path / "models")


def test_an_agents_runs_train_the_weights_before_it_and_it_plays_both_arms(
    house: House, base: Base, tmp_path: Path
) -> None:
    agent, reporter = read_agent("python:asking:play", tmp_path), Listening()
    with placed_at(house, "shop") as placed:
        with pytest.raises(NoBase, match="flywheel train warmup"):  # none is warmed up for an agent
            go_slowly(house, placed, COURSE, None, WarmingCourse(), reporter, None, never, agent=agent)
        assert not [each for each in house.store.read() if isinstance(each.event, SweepPlanned)]
        why = go_slowly(house, placed, COURSE, str(base.path), WarmingCourse(), reporter, None, never, agent=agent)
    assert why == "no round is left of 1", reporter.said
    events = [recorded.event for recorded in house.store.read()]
    assert not [each for each in events if isinstance(each, RunMissing)]
    (saved,) = house.views().find(WEIGHTS).values()
    (verdict,) = house.views().find(VERDICTS).values()
    assert verdict.challenger["weights"] == saved.checkpoint
    assert verdict.decision == "hold"  # it buys the jacket whatever its model says
    (sweep,) = [each for each in events if isinstance(each, SweepPlanned)]
    (opened,) = [each for each in events if isinstance(each, EvaluationOpened)]
    own = agent.with_model(f"transformers:{base.digest[:12]}")
    assert (sweep.executor, sweep.model, opened.executor) == (own.recorded_name, own.text, own.recorded_name)
    played = {each.run: each.artifact.weights for each in events if isinstance(each, RunStarted)}
    asked = Counter((each.model, played[each.run]) for each in events if isinstance(each, ModelCalled))
    name = f"transformers:{base.digest[:12]}"
    assert set(asked) == {(name, "base"), (f"{name}+{saved.checkpoint[:12]}", saved.checkpoint)}
    assert sum(asked.values()) == len(played)


def test_with_both_loops_an_agents_memory_and_the_weights_before_it_have_turns(
    house: House, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = COURSE.sizes
    small = {name: getattr(sizes, name) for name in ("siblings", "visible_seeds", "sealed_seeds", "rules")}
    monkeypatch.setattr(cli, "Course", partial(Course, **small))
    for name, value in {"MODEL": f"transformers:{base.path}", "MODELS": str(tmp_path / "models")}.items():
        monkeypatch.setenv(f"FLYWHEEL_{name}", value)
    stage = COURSE.stages[0].model_dump_json()
    (tmp_path / "stages.json").write_text(f"[{stage}]", "utf-8")
    words = ["run", "--site", "shop", "--loop", "both", "--agent", "python:asking:play", "--base", str(base.path)]
    sized = ["--rounds", "1", "--seeds", "1", "--siblings", "2", "--max-parallel", "2", "--stages", "stages.json"]
    assert run_command([*words, *sized]) == 0
    events = [recorded.event for recorded in house.store.read()]
    assert [each.loop for each in events if isinstance(each, LoopChosen)] == ["fast", "slow"]
    sweeps = [each for each in events if isinstance(each, SweepPlanned)]
    own = read_agent("python:asking:play", tmp_path).with_model(f"transformers:{base.digest[:12]}")
    assert [(each.executor, each.model) for each in sweeps] == [(own.recorded_name, own.text)] * 2
    (saved,) = house.views().find(WEIGHTS).values()
    (verdict,) = house.views().find(VERDICTS).values()
    assert (verdict.challenger["weights"], verdict.executor) == (saved.checkpoint, own.recorded_name)
    assert not [each for each in events if isinstance(each, RunMissing)]
