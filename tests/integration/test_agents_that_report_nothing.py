"""An agent that reports no step learns from the tools that it used, and is told by the endpoint of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import SecretStr

from agents.envs.clients.client import EnvClient
from agents.executors.outside.agent_spec import read_agent
from agents.learning.memory import content_reader, load_piece
from agents.learning.occasions import OccasionPiece
from api.house import House
from api.settings import Settings
from api.sweeps.agents import agent_executor
from api.sweeps.plan import first_facts
from benchmarks.demo_agents.learning import Case, Sizes, learn
from benchmarks.demo_framework.model import choose_tool
from eventlog.events import PieceKind, StepTaken, Template
from projections.memories import candidacies
from projections.rewards import REWARDS
from projections.runs import RUNS
from tests.model_server import model_server
from tests.own_site import serve_own_site

AGENT: Final = '''
"""A loop over a model and its tools, as many have written one: it knows of no memory and reports nothing."""

import json
import re
from urllib.parse import urljoin
from urllib.request import Request, urlopen


def play(task):
    place, said = task.url, [{"role": "system", "content": "You shop."}]
    said.append({"role": "user", "content": urlopen(place).read().decode()})
    while True:
        body = {"model": task.model.name, "messages": said, "seed": task.seed}
        headers = {"Authorization": "Bearer " + task.model.key, "Content-Type": "application/json"}
        asked = Request(task.model.openai_base_url + "/chat/completions", json.dumps(body).encode(), headers)
        answer = json.load(urlopen(asked))["choices"][0]["message"]
        said.append(answer)
        if not answer.get("tool_calls"):
            return
        for call in answer["tool_calls"]:
            link = json.loads(call["function"]["arguments"]).get("link")
            page = urlopen(place).read().decode()
            links = {text: to for to, text in re.findall(r'<a href="(.*?)">(.*?)</a>', page)}
            place = urljoin(place, links.get(link, ""))
            seen = urlopen(place, None if link else b"").read().decode()
            said.append({"role": "tool", "tool_call_id": call["id"], "content": seen})
'''
TASK: Final = Template(
    template_id="shop.buy",
    cluster="navigation",
    oracle_task_id="shop.buy",
    instruction="Buy the cheapest jacket.",
    plan_text="Buy the cheapest jacket.",
    max_steps=10,
)


def test_what_a_sibling_did_with_its_tools_helps_an_agent_that_reports_nothing(
    empty_house: House, tmp_path: Path
) -> None:
    house, kinds = empty_house, frozenset[PieceKind]({"exemplar"})
    first_facts(house)
    (tmp_path / "shopper.py").write_text(AGENT, "utf-8")
    agent = read_agent("python:shopper:play", tmp_path, by_proxy=True)
    with (
        serve_own_site(tmp_path) as shop,
        EnvClient(shop.url, shop.token) as client,
        model_server(choose_tool) as model,
    ):
        settings = Settings(model="m", model_url=model.url, model_logprobs=False, model_key=SecretStr("k"))
        with agent_executor(agent, settings) as executor:
            case = Case("", "shop", TASK, client, executor, executor, (), 10_000, is_control=False)
            learn(house, case, kinds, Sizes(found=4, tried=2, sealed=0, rounds=1))
    loaded = (load_piece(state, content_reader(house.blobs)) for state in candidacies(house.views()).values())
    texts = [piece.text for piece in loaded if isinstance(piece, OccasionPiece)]
    assert any("take the action follow with 'Jackets'" in text for text in texts), texts
    steps = {each.event.action for each in house.store.read(types=["StepTaken"]) if isinstance(each.event, StepTaken)}
    assert steps == {"finish"}
    runs, rewards = house.views().find(RUNS), house.views().find(REWARDS)
    found = {(bool(state.applied), rewards[run].passed) for run, state in runs.items()}
    assert (True, True) in found
    assert (False, False) in found
