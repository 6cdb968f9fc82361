"""What a run without pages did is read from the log also where an action is called as a step on a page is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from agents.envs.contract import Instance
from agents.envs.episodes.episode import ActionSpec
from agents.executors.executor import Assignment, ExecutedStep, Execution
from agents.executors.open_actions import open_step
from agents.executors.policy import PolicyExecutor
from agents.executors.surface import Acted
from agents.learning.contrast import Transcript, contrast
from agents.models.scripted import Scripted
from agents.rollouts.facts import execution_facts
from agents.rollouts.transcripts import read_moves
from eventlog.blobs import MemoryBlobs
from eventlog.events import Step
from eventlog.store import Append, EventStore
from tests.unit.test_agent_samples import a_store, template
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
    store.append([Append(f"run/{run}", (begun, *facts.events), "test")])


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


@pytest.mark.parametrize(
    ("step", "argument"),
    [
        (open_step("click", "right"), "right"),
        (open_step("click", '{"label": "right", "force": 3}'), '{"label": "right", "force": 3}'),
        (open_step("click", "[1]"), "[1]"),
    ],
)
def test_an_agent_may_take_such_an_action_too(step: Step, argument: str) -> None:
    store, blobs = a_store(), MemoryBlobs()
    taken = (ExecutedStep(0, step, "ok", None, None),)
    recorded(store, blobs, "r", Execution(taken, "completed", is_reported=True), "agent:1")
    (move,) = read_moves(store, blobs, "r")
    assert (move.step.type, move.step.label, move.step.value) == ("act", "click", argument)
