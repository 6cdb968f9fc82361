"""What `--agent` may name, and what becomes of steps that an agent reports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.executors.executor import Execution
from agents.executors.outside.agent_spec import agent_options, model_in, read_agent
from agents.executors.outside.errors import BadAgent
from agents.executors.outside.executor import AgentExecutor
from agents.executors.outside.reports import LONGEST, read_report
from agents.rollouts.facts import execution_facts
from api.sweeps.executors import describe_executor, recorded_as
from projections.runs import PLANLESS, is_agent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("from os import getpid\n\ndef play(task):\n    pass\n\nother = play\n")
    (tmp_path / "broken.py").write_text("def play(:")
    (tmp_path / "agent.js").write_text("1")
    return tmp_path


BAD = {
    "mine:play": "neither python nor command",
    "python:mine": "no module and function",
    "python:../mine:play": "no module and function",
    "python:yours:play": "no module 'yours'",
    "python:mine:dance": "defines no 'dance'",
    "python:broken:play": "is no Python",
    "command:": "no program",
    "command:no-such-program-here": "no program 'no-such-program-here'",
    "command:sh -c 'x": "quotes do not match",
    f"command:sh {'x' * 200}": "characters",
}


NAMES = ("openai:my-model", "openai:org/A model of 8B", "transformers:0123456789ab", "anthropic:" + "x" * 200)


@pytest.mark.parametrize("by_proxy", [False, True])
@pytest.mark.parametrize("text", ["python:mine:play", f"command:sh agent.js {'x' * 128} python:play"])
def test_an_agent_before_a_model_is_another_agent_whose_options_and_model_can_be_read(
    folder: Path, text: str, by_proxy: bool
) -> None:
    alone = read_agent(text, folder, by_proxy=by_proxy)
    assert model_in(alone.text) == ""
    agents = [alone, *map(alone.with_model, NAMES)]
    assert len({each.recorded_name for each in agents}) == len(agents)
    assert {agent_options(each.text) for each in agents} == {agent_options(alone.text)}
    assert all(len(each.text) <= 200 for each in agents)
    models = [model_in(each.text) for each in agents[1:]]
    assert models[0] == NAMES[0]
    assert all(re.fullmatch(r"\S+~[0-9a-f]{12}", each) for each in models[1::2])
    for each in agents:
        each.refuse_changed()


@pytest.mark.parametrize(("text", "said"), BAD.items())
def test_an_agent_that_cannot_be_started_is_refused_before_anything_is_played(
    folder: Path, text: str, said: str
) -> None:
    with pytest.raises(BadAgent, match=said):
        read_agent(text, folder)


@pytest.mark.parametrize("text", ["python:mine:play", "python:mine:other", "python:mine:getpid", "command:sh agent.js"])
def test_an_agent_is_known_by_what_it_is_called_and_by_the_content_of_its_files(folder: Path, text: str) -> None:
    before = read_agent(text, folder)
    assert read_agent(text, folder) == before
    for file in ("mine.py", "agent.js"):
        (folder / file).write_text((folder / file).read_text() + "# more\n")
    assert read_agent(text, folder).recorded_name != before.recorded_name
    assert before.recorded_name.startswith("agent:")
    assert "agent" in PLANLESS
    name, model = recorded_as(AgentExecutor(before))
    assert (name, model) == (before.recorded_name, text)
    assert is_agent(name)
    assert text in describe_executor(name, model)


def test_steps_on_a_page_keep_their_meaning_and_all_others_are_actions_of_the_agents_own() -> None:
    lines = [
        {"name": "click", "label": "Jackets", "intent": "open the jackets", "outcome": "no_such_link"},
        {"name": "navigate", "url": "https://elsewhere.example/"},
        {"name": "fill_field", "label": "Name"},
        {"name": "Ask the model!", "argument": "why", "text": "because", "status": 200},
        {"name": "7", "label": "a", "value": "b"},
    ]
    steps = [read_report(json.dumps(line), number) for number, line in enumerate(lines)]
    assert [step and (step.step.action, step.outcome) for step in steps] == [
        ("click", "no_such_link"),
        ("navigate", "ok"),
        ("fill_field", "ok"),
        ("ask_the_model", "ok"),
        ("step_7", "ok"),
    ]
    assert [step and step.step.type for step in steps] == ["click", "act", "act", "act", "act"]
    assert steps[3] is not None
    assert (steps[3].text, steps[3].http_status, steps[3].step.value) == ("because", 200, "why")


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_line_is_a_step_or_none(line: str) -> None:
    step = read_report(line, 0)
    assert step is None or execution_facts("r", Execution((step,), "halted")).events


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)


FIELDS = ("argument", "url", "label", "value", "intent", "outcome", "status", "text")


@given(st.fixed_dictionaries({"name": st.text(min_size=1)}, optional=dict.fromkeys(FIELDS, JSON)))
def test_whatever_an_agent_reports_can_be_recorded(said: dict[str, object]) -> None:
    step = read_report(json.dumps(said), 0)
    assert (step is None) == (not str(said["name"]).strip())
    if step is not None:
        facts = execution_facts("r", Execution((step,), "halted", is_reported=True))
        assert len(facts.events) == 1
        assert len(step.step.value or "") <= LONGEST
