"""How a policy learns to click by a lesson: demonstrations on pages that others made, none of which is judged.

In half of those on buttons the page asks for one by a name that it does not show, so that only a lesson says what is
meant. In all others there is no lesson, or (in a quarter of all) one of something that is not there: what the page asks
for is then clicked.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

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

TASKS: Final = ("click-button", "click-tab")
FIRST_SEED: Final = 4_000
_ASKED: Final = re.compile(r'"([^"]+)"|(Tab #\d+)')
NAMES: Final = WORDS["buttons"]
HALF: Final = 0.5
QUARTER: Final = 0.25


@dataclass(frozen=True, slots=True)
class Lecture:
    """What is shown at an instance: what is to be clicked, what the page calls it, and the lessons that are told."""

    clicked: str
    called: str
    advice: tuple[str, ...]


def lecture_of(view: View, seed: int) -> Lecture:
    """What is shown at an instance with this page.

    A lesson leaves out numbers, so what has one is never renamed. Raises ValueError if the page asks for nothing.
    """
    found = _ASKED.search(view.instruction)
    if found is None:
        raise ValueError(f"{view.instruction!r} asks for nothing; expected something in quotes, or a tab")
    asked, rng = found[1] or found[2], random.Random(f"click school {seed}")  # noqa: S311 (a seed's data)
    others = sorted({each.text for each in view.shown if each.kind in CLICKED and each.text} - {asked})
    called, *absent = rng.sample(sorted({*NAMES} - {asked, *others}), 2)
    is_renamed, useless = rng.random() < HALF, [lesson(absent[0], rng)] if rng.random() < QUARTER else []
    if not is_renamed or any(sign.isdigit() for sign in asked):
        return Lecture(asked, asked, tuple(useless))
    told = [lesson(asked, rng), *useless]
    return Lecture(asked, called, tuple(rng.sample(told, len(told))))


def lesson(label: str, rng: random.Random) -> str:
    """A lesson that says to click this, in the words of one by contrast."""
    where = rng.choice(("At the start", "Next"))
    said = say_step(open_step(CLICK.name, label), "")
    return f"{where}: {said}. A run that passed did so; one that failed did not."


@dataclass(frozen=True, slots=True)
class RenamingSurface(ClickSurface):
    """The surface of a page that asks for something by another name."""

    asked: str = ""
    called: str = ""

    def text(self) -> str:
        """See Surface."""
        first, newline, rest = ClickSurface.text(self).partition("\n")
        renamed = first.replace(f'"{self.asked}"', f'"{self.called}"')
        return f"{renamed}{newline}{rest}"


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
            return nullcontext(RenamingSurface(page, tab, shown.clicked, shown.called))

        policy = PolicyExecutor(Scripted(lambda _: shown.clicked, name="lecture", offers=NO_TOKENS), opening=renaming)
        return policy.execute(replace(assignment, advice=shown.advice), instance, watch)


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
