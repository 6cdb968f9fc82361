"""How a policy learns to click by a lesson: demonstrations on pages that others made, none of which is judged.

Where the page asks for something that it shows, that is clicked, whatever lessons say. Where it asks for something by
another name, or by none, a lesson says what is meant, and may stand beside one of something that is not there. Half of
the pages ask in words of our own, and at least half of the tasks in those of their page.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Final, Literal

from agents.envs.contract import Instance
from agents.envs.miniwob.environment import MiniWob
from agents.envs.miniwob.tabs import Tabs
from agents.envs.miniwob.view import CLICKED, View
from agents.executors.demonstration import NAME, NO_TOKENS
from agents.executors.executor import Assignment, Execution, Watch, no_verification
from agents.executors.miniwob.executor import MiniWobSurface
from agents.executors.open_actions import open_step
from agents.executors.policy import PolicyExecutor
from agents.learning.step_words import say_step
from agents.models.scripted import Scripted
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.house import House
from api.reporter import Reporter
from api.sweeps.plan import plan, site_templates
from benchmarks.real.clicks import CLICK, ClickSurface
from benchmarks.resuming import play_or_go_on
from eventlog.events import PieceKind, SweepPlanned

from .school import WORDS

TASKS: Final = ("click-button", "click-link", "click-tab", "click-test-2")
FIRST_SEED: Final = 4_000
_ASKED: Final = re.compile(r'"(?P<quoted>[^"]+)"|Tab #\d+|ONE')
NAMES: Final = WORDS["buttons"]
SIGNS: Final = "abcdefghijklmnopqrstuvwyz+<>"
"""Names of one letter or sign; that of a judged page is not among them."""

FRAMES: Final = (
    'Press "{}".',
    'Go on by "{}".',
    'Choose "{}" here.',
    'Look for "{}" and take it.',
    "Use the one called {}.",
    'Finish with "{}".',
)
UNNAMED: Final = ("Go on.", "Finish this page.", "Take the right one.", "Do what has to be done here.")
"""Words in which a page asks for something, by a name or by none."""

Manner = Literal["asked", "absent lesson", "other lesson", "renamed", "signed", "unnamed"]
MANNERS: Final[Mapping[Manner, int]] = {
    "asked": 5,
    "absent lesson": 3,
    "other lesson": 3,
    "renamed": 4,
    "signed": 3,
    "unnamed": 2,
}
"""How often each is shown, in parts of 20.

The page asks for what it shows, without a lesson or with one of something that is not there or of something else that
is; or it asks by another name, by one letter or sign, or by no name, and a lesson says what is meant.
"""

_NAMED: Final[frozenset[Manner]] = frozenset({"asked", "absent lesson", "other lesson"})
HALF: Final = 0.5
QUARTER: Final = 0.25


@dataclass(frozen=True, slots=True)
class Lecture:
    """What is shown at an instance: what is to be clicked, what the page asks for, and the lessons that are told.

    If it is `in_task`, the task asks in the words of the page, too.
    """

    clicked: str
    instruction: str
    advice: tuple[str, ...]
    in_task: bool


def lecture_of(view: View, seed: int) -> Lecture:
    """What is shown at an instance with this page.

    A lesson leaves out numbers, so what has one is always asked for by its name. Raises ValueError if the page asks
    for nothing.
    """
    found = _ASKED.search(view.instruction)
    if found is None:
        raise ValueError(f"{view.instruction!r} asks for nothing; expected something in quotes, a tab, or ONE")
    asked, rng = found["quoted"] or found[0], random.Random(f"click school {seed}")  # noqa: S311 (a seed's data)
    others = sorted({each.text for each in view.shown if each.kind in CLICKED and each.text} - {asked})
    called, absent = rng.sample(sorted({*NAMES} - {asked, *others}), 2)
    manner, in_task = rng.choices([*MANNERS], [*MANNERS.values()])[0], rng.random() < HALF
    frame = rng.choice((None, rng.choice(FRAMES)))
    if manner in _NAMED or any(sign.isdigit() for sign in asked):
        told = {"absent lesson": [absent], "other lesson": others and [rng.choice(others)]}.get(manner, [])
        name = asked
    else:
        told = [asked, *([absent] if rng.random() < QUARTER else [])]
        name = {"renamed": called, "signed": rng.choice(SIGNS), "unnamed": ""}[manner]
    advice = tuple(lesson(each, rng) for each in rng.sample(told, len(told)))
    if frame is None:
        return Lecture(asked, _asking_for(view.instruction, found, name), advice, in_task)
    return Lecture(asked, frame.format(name) if name else rng.choice(UNNAMED), advice, in_task)


def _asking_for(instruction: str, found: re.Match[str], name: str) -> str:
    """The instruction with another name, or without one and the space before it."""
    before, after = instruction[: found.start()], instruction[found.end() :]
    said = f'"{name}"' if found["quoted"] else name
    return f"{before}{said}{after}" if name else f"{before.rstrip()}{after}"


def lesson(label: str, rng: random.Random) -> str:
    """A lesson that says to click this, in the words of one by contrast."""
    where = rng.choice(("At the start", "Next"))
    said = say_step(open_step(CLICK.name, label), "")
    return f"{where}: {said}. A run that passed did so; one that failed did not."


@dataclass(frozen=True, slots=True)
class RenamingSurface(ClickSurface):
    """The surface of a page that asks in other words."""

    instruction: str = ""

    def text(self) -> str:
        """See Surface."""
        _, newline, rest = ClickSurface.text(self).partition("\n")
        return f"{self.instruction}{newline}{rest}"


@dataclass(frozen=True, slots=True)
class Showing:
    """Executor of the demonstrations: it clicks what is meant."""

    tabs: Tabs
    name: str = NAME
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor."""
        tab = self.tabs.tab(instance.instance)
        page = MiniWobSurface(tab)
        shown = lecture_of(page.look(), instance.seed)

        def renaming(_instance: Instance, _headers: Mapping[str, str]) -> AbstractContextManager[RenamingSurface]:
            return nullcontext(RenamingSurface(page, tab, shown.instruction))

        policy = PolicyExecutor(Scripted(lambda _: shown.clicked, name="lecture", offers=NO_TOKENS), opening=renaming)
        says_it = shown.in_task or _ASKED.search(assignment.instruction)
        task = shown.instruction if says_it else assignment.instruction
        return policy.execute(replace(assignment, advice=shown.advice, instruction=task), instance, watch)


def demonstrate_clicks(house: House, tabs: Tabs, many: int, course: Course, reporter: Reporter) -> tuple[str, ...]:
    """Demonstrate `many` instances of each task of the school; the names of the sweeps.

    What an earlier call played is not played again.
    """
    return tuple(sorted(_demonstrate(house, tabs, task, many, course, reporter) for task in TASKS))


def _demonstrate(house: House, tabs: Tabs, task: str, many: int, course: Course, reporter: Reporter) -> str:
    name, showing = f"school-{task}", Showing(tabs)
    with MiniWob(task, tabs) as environment:

        def planned() -> SweepPlanned:
            drawn = SeedSweep(name, site_templates(environment), range(FIRST_SEED, FIRST_SEED + many))
            site, none = environment.name, frozenset[PieceKind]()
            return plan(
                house, house.views(), site, drawn, rng_seed=1, learns=False, executor=showing, tells=False, kinds=none
            )

        play_or_go_on(house, environment, name, planned, course, reporter, showing)
    return name
