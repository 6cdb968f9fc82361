"""The rule agent on pages that others made: it reads their views, and says values by their slots.

A `*` in what it is told stands for a word with a number, as in every lesson, so for what fits it on the page. A slot
stands there in round brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from agents.envs.contract import Instance
from agents.envs.miniwob.environment import MiniWob
from agents.envs.miniwob.tabs import Tabs
from agents.envs.miniwob.view import CLICKED, FIELDS
from agents.executors.miniwob.executor import MiniWobSurface
from agents.executors.miniwob.inspection import miniwob_inspectors
from agents.executors.miniwob.slot_surface import SlotSurface
from agents.executors.policy import Opening, PolicyExecutor
from agents.learning.step_words import say_step
from agents.models.scripted import Scripted
from api.sweeps.plan import site_templates
from benchmarks.demo_miniwob.__main__ import FIRST_HELD_OUT
from eventlog.events import Step, StepType, Template
from tests.followers import Follower

from .learning import Case
from .rules import EXPLORES

OPEN: Final = Step(type="navigate", intent="see the page", url="/")
OBSTACLES: Final = {
    "click-test": "other label",
    "click-dialog": "other label",
    "enter-text": "field without a label",
    "enter-password": "other label",
    "enter-date": "other format",
}
"""Tasks by name, with what is in the way of their plans; that of the last one nothing cures."""

UNCURED: Final = "enter-date"
LESSONS: Final = (
    "Before you press the button 'Submit': follow the link 'Help'.",
    "Follow the link 'Click Me!', not: follow the link 'Button'.",
    "Follow the link 'Close', not: follow the link 'x'.",
    "Write '(quoted)' into 'field *', not: write '(quoted)' into 'Text field'.",
    "Write '(quoted)' into 'Verify password', not: write '(quoted)' into 'Confirm password'.",
)
"""Sentences that a model might propose, at most one of which helps with a task."""

_LINE: Final = re.compile(r'^-?\d+,-?\d+ \d+x\d+ ([a-z]\w*)(?::\S+)?(?: "([^"]*)")?(?: \(([^)]*)\))?', re.MULTILINE)
_SLOT: Final = re.compile(r"\(((?:quoted|number|after|between)(?::[^()]*)?)\)")
_QUOTED: Final = re.compile(r"'([^']*\*[^']*)'")


@contextmanager
def open_page(name: str, tabs: Tabs) -> Iterator[Case]:
    """Yield a task for the rule agent, in tabs that are open."""
    with MiniWob(name, tabs) as environment:
        (task,) = site_templates(environment)
        yield Case(
            obstacle=OBSTACLES[name],
            site=environment.name,
            task=task,
            environment=environment,
            learner=_agent(task, tabs, EXPLORES),
            knower=_agent(task, tabs, 0.0),
            pool=LESSONS,
            sealed_from=FIRST_HELD_OUT,
            is_control=name == UNCURED,
        )


def _agent(task: Template, tabs: Tabs, explores: float) -> PolicyExecutor:
    """The agent. It opens the page first, because before its first step it is shown none."""
    follower = Follower((OPEN, *task.plan_steps), task.instruction, explores, choices_on, named_on)
    return PolicyExecutor(
        Scripted(follower), opening=_with_slots(tabs), inspect=miniwob_inspectors(tabs, has_slots=True)
    )


def _with_slots(tabs: Tabs) -> Opening:
    @contextmanager
    def open_surface(instance: Instance, _page_headers: object) -> Iterator[SlotSurface]:
        yield SlotSurface(MiniWobSurface(tabs.tab(instance.instance)))

    return open_surface


def choices_on(words: str, wanted: str) -> Iterator[str]:
    """What can be done with the last page that was seen, in sentences: what is wanted, with each thing it could be."""
    for kind, text, name in _elements_of(words):
        if (write := re.fullmatch(r"write '(.*)' into '.*'", wanted)) is not None:
            step = Step(type="fill_field", intent="x", label=name, value=write[1]) if kind in FIELDS and name else None
        elif (choose := re.fullmatch(r"choose '(.*)' at '.*'", wanted)) is not None:
            is_choice = kind == "select" and bool(name)
            step = Step(type="select_option", intent="x", label=name, value=choose[1]) if is_choice else None
        else:
            label = text if kind in CLICKED else name
            kind_of_click: StepType = "submit" if wanted.startswith("press") else "click"
            step = Step(type=kind_of_click, intent="x", label=label) if label.strip() else None
        if step is not None and (said := say_step(step, "")) is not None:
            yield said


def named_on(words: str, sentence: str) -> str:
    """A sentence with slots, and in place of a name with a `*` the first one on the page that fits it."""
    shown = [name for _, *names in _elements_of(words) for name in names if name]

    def name_of(found: re.Match[str]) -> str:
        pattern = re.escape(found[1]).replace(r"\*", r"\S*\d\S*")
        return f"'{next((name for name in shown if re.fullmatch(pattern, name)), found[1])}'"

    return _SLOT.sub(r"{\1}", _QUOTED.sub(name_of, sentence))


def _elements_of(words: str) -> list[tuple[str, str, str]]:
    """Kind, text and name of each element of the last page in a conversation."""
    return _LINE.findall(words.rpartition("<page>")[2])
