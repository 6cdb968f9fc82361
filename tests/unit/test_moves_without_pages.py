"""What a run without pages did is read from the log: by any name of an action, and by the tools that were used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from agents.envs.contract import Instance
from agents.envs.episodes.episode import ActionSpec
from agents.executors.executor import Assignment, ExecutedStep, Execution, PassedOn
from agents.executors.open_actions import open_step
from agents.executors.policy import PolicyExecutor
from agents.executors.surface import Acted
from agents.learning.contrast import Transcript, contrast
from agents.learning.reflection import transcript_lines
from agents.models.scripted import Scripted
from agents.rollouts.facts import execution_facts
from agents.rollouts.transcripts import read_last_seen, read_moves
from api.serving.calls import ModelAnswer, ModelCall
from api.serving.outside_facts import call_event
from eventlog.blobs import MemoryBlobs
from eventlog.events import RunStatus, Sampling, Step
from eventlog.store import Append, EventStore
from tests.unit.test_agent_samples import a_store, template
from tests.unit.test_folds_runs import finished
from tests.unit.test_folds_samples import started

NOWHERE = Instance.model_validate({"seed": 0, "instance": "i", "url": "http://nowhere.invalid/"})


@dataclass(frozen=True)
class Buttons:
    """A surface without pages, whose only action has the name of a step on a page. The button `right` ends the task."""

    actions: tuple[ActionSpec, ...] = (ActionSpec("click", "the button to press"),)

    def act(self, step: Step) -> Acted:
        return Acted("ok", is_last=True) if step.value == "right" else Acted("invalid_argument")

    def text(self) -> str:
        return "two buttons"

    def view(self) -> str:
        return self.text()

    def screenshot(self) -> None:
        return None


@contextmanager
def open_buttons(_instance: Instance, _headers: Mapping[str, str]) -> Iterator[Any]:
    yield Buttons()


def recorded(store: EventStore, blobs: MemoryBlobs, run: str, execution: Execution, executor: str = "policy") -> None:
    facts = execution_facts(run, execution)
    blobs.put(facts.blobs)
    begun = started(run, f"{run}__g").model_copy(update={"executor": executor})
    end = finished(execution.status, run)
    store.append([Append(f"run/{run}", (begun, *facts.events, end), "test")])


def test_a_sibling_that_passed_teaches_an_action_that_is_called_as_a_step_on_a_page() -> None:
    store, blobs, transcripts = a_store(), MemoryBlobs(), list[Transcript]()
    for run, answers in (("failed", ["left", "left"]), ("passed", ["left", "right"])):
        policy = PolicyExecutor(Scripted(answers), opening=open_buttons)
        recorded(store, blobs, run, policy.execute(Assignment("do it", (), 2), NOWHERE))
        moves = read_moves(store, blobs, run)
        assert [(each.step.type, each.step.label, each.step.value) for each in moves] == [
            ("act", "click", answer) for answer in answers
        ]
        transcripts.append(Transcript(run, "t1", "g", run == "passed", int(run == "passed"), moves))
    (lesson,) = contrast("buttons", template(), transcripts)
    assert lesson.text.startswith("Next: take the action click with 'right'.")
    assert "two buttons" in read_last_seen(store, blobs, "failed")


@pytest.mark.parametrize(
    ("step", "argument"),
    [
        (open_step("click", "right"), "right"),
        (open_step("click", '{"label": "right", "force": 3}'), '{"label": "right", "force": 3}'),
        (open_step("click", "[1]"), "[1]"),
        (open_step("click", "[" * 3_000), "[" * 3_000),
    ],
)
def test_an_agent_may_take_such_an_action_too(step: Step, argument: str) -> None:
    store, blobs = a_store(), MemoryBlobs()
    taken = (ExecutedStep(0, step, "ok", None, None),)
    recorded(store, blobs, "r", Execution(taken, "completed", is_reported=True), "agent:1")
    (move,) = read_moves(store, blobs, "r")
    assert (move.step.type, move.step.label, move.step.value) == ("act", "click", argument)


def ended(index: int, said: str) -> ExecutedStep:
    return ExecutedStep(index, Step(type="finish", intent=f"the agent ended: {said}", value=""), "ok", None, None)


def test_an_agent_that_was_ended_is_not_read_as_one_that_said_that_it_is_done() -> None:
    store, blobs, transcripts = a_store(), MemoryBlobs(), list[Transcript]()
    steps = {"failed": ["left", "right"], "passed": ["left"], "killed": ["left", "right"]}
    ends = {"failed": "exit code 0", "passed": "exit code 0", "killed": "it was ended at its deadline"}
    for run, names in steps.items():
        taken = [ExecutedStep(number, open_step(name, None), "ok", None, None) for number, name in enumerate(names)]
        status: RunStatus = "halted" if run == "killed" else "completed"
        execution = Execution((*taken, ended(len(taken), ends[run])), status, is_reported=True)
        recorded(store, blobs, run, execution, "agent:1")
        moves = read_moves(store, blobs, run)
        assert [each.step.action for each in moves] == [*names, "finish"]
        transcripts.append(Transcript(run, "t1", "g", run == "passed", int(run == "passed"), moves))
    failed, passed, killed = transcripts
    assert [each.moves[-1].is_ok for each in transcripts] == [True, True, False]
    assert contrast("x", template(), [failed, passed])[0].text.startswith("Next: say that it is done.")
    assert contrast("x", template(), [failed, replace(passed, moves=(*passed.moves[:-1], killed.moves[-1]))]) == ()
    lines = [*transcript_lines(template(), [killed])]
    assert lines[-1] == "- “the agent ended: it was ended at its deadline”, which failed"


CHAT = {
    "role": "assistant",
    "tool_calls": [
        {"id": "1", "function": {"name": "Follow-link", "arguments": '{"link": "Paper"}'}},
        {"id": "2", "function": {"name": "look", "arguments": "{}"}},
    ],
}
USED = [
    {"type": "tool_use", "id": "1", "name": "follow_link", "input": {"link": "Paper"}},
    {"type": "tool_use", "id": "2", "name": "look", "input": {}},
]
SAID: dict[str, list[dict[str, Any]]] = {
    "openai": [
        CHAT,
        {"role": "tool", "tool_call_id": "1", "content": "a page"},
        {"role": "tool", "tool_call_id": "2", "content": "seen"},
    ],
    "anthropic": [
        {"role": "assistant", "content": USED},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "a page"},
                {"type": "tool_result", "tool_use_id": "2", "content": "no", "is_error": True},
            ],
        },
    ],
}


SAID_FIRST: Final[dict[str, Any]] = {"openai": CHAT["tool_calls"], "anthropic": USED}


def called(blobs: MemoryBlobs, messages: Sequence[Mapping[str, Any]], *uses: Mapping[str, Any]) -> PassedOn:
    drawn = Sampling(temperature_micro=0, max_tokens=9)
    call = ModelCall("m", tuple(messages), (), drawn, is_streamed=False, is_constrained=False, asked={})
    event, bodies = call_event("r", call, ModelAnswer("m", ({"text": "x", "tool_calls": list(uses)},), 1, 1), {})
    blobs.put(bodies)
    return PassedOn(0, event, bodies)


@pytest.mark.parametrize("api", SAID)
def test_an_agent_that_reports_nothing_is_read_by_the_tools_that_it_used_between_calls(api: str) -> None:
    store, blobs = a_store(), MemoryBlobs()
    example = json.loads(json.dumps(SAID[api]).replace('"1"', '"e1"').replace('"2"', '"e2"'))
    earlier = [{"role": "user", "content": "an example"}, *example, {"role": "user", "content": "do it"}]
    first, second = called(blobs, earlier), called(blobs, [*earlier, *SAID[api]])
    again = called(blobs, [{"role": "system", "content": "another"}, *earlier, *SAID[api]])
    end = (ended(0, "exit code 0"),)
    passed_on = (first, second, second, again)
    recorded(store, blobs, "r", Execution(end, "completed", is_reported=True, passed_on=passed_on), "agent:1")
    moves = read_moves(store, blobs, "r")
    assert [(each.step.action, each.step.value, each.is_ok) for each in moves] == [
        ("follow_link", "Paper", True),
        ("look", None, api == "openai"),
        ("finish", None, True),
    ]


PICTURE: Final = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ([], ""),
        ([[{"role": "user", "content": "do it"}]], "do it"),
        ([[{"role": "user", "content": "page one"}], [{"role": "user", "content": "page two"}]], "page two"),
        ([[{"role": "user", "content": "do it"}, *SAID["openai"]]], "a page\nseen"),
        ([[{"role": "user", "content": "do it"}, *SAID["anthropic"]]], "a page\nno"),
        ([[{"role": "assistant", "content": "what?"}, {"role": "user", "content": "this"}]], "this"),
        ([[*SAID["openai"], {"role": "user", "content": "a whole page"}]], "a page\nseen\na whole page"),
        ([[{"role": "user", "content": "a page"}, {"role": "assistant", "content": "{"}]], "a page"),
        ([[{"role": "user", "content": [{"type": "text", "text": "look"}, PICTURE, None, 3]}]], "look"),
        ([[{"role": "user", "content": None}]], ""),
    ],
)
def test_what_an_agent_was_told_last_is_what_its_tools_gave_or_else_the_last_message(
    told: list[list[dict[str, Any]]], seen: str
) -> None:
    store, blobs = a_store(), MemoryBlobs()
    calls = tuple(called(blobs, messages) for messages in told)
    end = (ended(0, "exit code 0"),)
    recorded(store, blobs, "r", Execution(end, "completed", is_reported=True, passed_on=calls), "agent:1")
    assert read_last_seen(store, blobs, "r") == seen


BUY: Final = {
    "openai": {"id": "3", "type": "function", "function": {"name": "buy", "arguments": "[" * 3_000}},
    "anthropic": {"type": "tool_use", "id": "3", "name": "buy", "input": {"now": True, "times": 1}},
}


@pytest.mark.parametrize(("api", "argument"), [("openai", "[" * 3_000), ("anthropic", '{"now": true, "times": 1}')])
def test_a_tool_after_which_no_call_is_made_is_read_from_the_last_answer(api: str, argument: str) -> None:
    store, blobs = a_store(), MemoryBlobs()
    asked = [{"role": "user", "content": "do it"}]
    calls = (called(blobs, asked), called(blobs, [*asked, *SAID[api]], *SAID_FIRST[api], BUY[api]))
    end = (ended(0, "exit code 0"),)
    recorded(store, blobs, "r", Execution(end, "completed", is_reported=True, passed_on=calls), "agent:1")
    moves = read_moves(store, blobs, "r")
    assert [each.step.action for each in moves] == ["follow_link", "look", "buy", "finish"]
    assert moves[2].step.value == argument


@pytest.mark.parametrize(("status", "is_done"), [("completed", True), ("out_of_budget", False)])
def test_an_agent_that_spent_its_steps_is_not_read_as_done_though_it_exited_by_itself(
    status: RunStatus, *, is_done: bool
) -> None:
    store, blobs = a_store(), MemoryBlobs()
    recorded(store, blobs, "r", Execution((ended(0, "exit code 0"),), status, is_reported=True), "agent:1")
    assert [each.is_ok for each in read_moves(store, blobs, "r")] == [is_done]


def test_what_an_agent_reported_is_not_read_again_from_its_tools() -> None:
    store, blobs = a_store(), MemoryBlobs()
    begun = [{"role": "user", "content": "do it"}]
    calls = (called(blobs, begun), called(blobs, [*begun, *SAID["openai"]]))
    taken = (ExecutedStep(0, open_step("go", "3"), "ok", None, None), ended(1, "exit code 1"))
    recorded(store, blobs, "r", Execution(taken, "halted", is_reported=True, passed_on=calls), "agent:1")
    assert [each.step.action for each in read_moves(store, blobs, "r")] == ["go", "finish"]
