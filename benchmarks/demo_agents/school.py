"""The sites on which the policy is adapted, none of which is judged, and its demonstrations there."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Final

from agents.envs.clients.client import EnvClient
from agents.executors.demonstration import Demonstrator
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.house import House
from api.reporter import Reporter
from api.sweeps.plan import plan
from benchmarks.demo_sites import Sizes, learn
from benchmarks.resuming import play_or_go_on
from eventlog.events import SweepPlanned, Template
from tests.desks.desk import CLEAR_EVERY, NAME
from tests.desks.grammar import Combination, DeskKind
from tests.desks.serving import serve_desk
from tests.desks.site import template_of
from tests.desks.words import WORKSHOP

MOST_STEPS: Final = 10
"""Twice what the plan takes. A policy that has learned nothing goes on until it is stopped."""

FIRST_PLAIN: Final = 4_000
FIRST_TOLD: Final = 6_000
LEARNING: Final = Sizes(found=6, groups=20)
OBSTACLES: Final[tuple[Combination, ...]] = (("missing prerequisite",), ("extra confirmation",), ("moved address",))
"""Those that plans cure by a change of a step, which is told in the words in which a policy's own lessons are told."""

WORDS: Final[dict[str, list[str]]] = json.loads((Path(__file__).parent / "school_words.json").read_text())
"""What the school's sites call things, of which each draws its own: only who reads the task can fill a site's form."""


def school_desk(number: int) -> DeskKind:
    """The site of a number: its obstacle by turns, its words drawn. None of them is a word of a site that is judged.

    No two have their things or their button in common: a plan's change belongs to a step, whatever the site. Raises
    IndexError if there are no words for so many sites.
    """
    rng = random.Random(f"school {number}")  # noqa: S311 (a seed's data)
    things, button = (_shuffle(WORDS[each])[number] for each in ("things", "buttons"))
    places = rng.sample(WORDS["places"], 4)
    words = replace(
        WORKSHOP,
        site=f"school{number}",
        things=things,
        address=f"/{things.lower().replace(' ', '-')}",
        kinds=tuple(rng.sample(WORDS["kinds"], 5)),
        who=rng.choice(WORDS["fields"]),
        send=button,
        prerequisite=rng.choice(WORDS["boxes"]),
        confirm=("One moment", rng.choice(WORDS["confirming"])),
        moved=(f"/{places[0]}", f"/{places[1]}/{places[2]}", f"/{places[3]}"),
    )
    return DeskKind(words, OBSTACLES[number % len(OBSTACLES)])


def _shuffle(words: list[str]) -> list[str]:
    return random.Random("school").sample(words, len(words))  # noqa: S311 (a seed's data)


def task_of(desk: DeskKind) -> Template:
    """A site's task for a policy that sees but the beginning of a page: the instruction says what to fill and press."""
    words = desk.words
    told = (
        f"Open / and then the {words.things.lower()} at {words.address}, follow the {words.kinds[0]}, write {NAME} "
        f"into {words.who}, and press {words.send}."
    )
    return template_of(desk).model_copy(update={"instruction": told, "max_steps": MOST_STEPS})


def demonstrate(house: House, number: int, plain: int, told: int, course: Course, reporter: Reporter) -> None:
    """Let plans learn one site, and demonstrate its task: `plain` seeds without obstacle, `told` what memory changed.

    What an earlier call played is not played again.
    """
    desk = school_desk(number)
    site, task, showing = desk.words.site, task_of(desk), Demonstrator(wording="brief")

    def show(name: str, seeds: range, *, tells: bool) -> None:
        def planned() -> SweepPlanned:
            drawn = SeedSweep(name, (task,), seeds)
            return plan(
                house, house.views(), site, drawn, rng_seed=1, learns=False, executor=showing, tells=tells, kinds=kinds
            )

        kinds = course.kinds if tells else frozenset()
        play_or_go_on(house, client, name, planned, course, reporter, showing)

    with serve_desk(desk) as served, EnvClient(served.admin_url, served.admin_token) as client:
        show(plain_name(number), range(FIRST_PLAIN, FIRST_PLAIN + CLEAR_EVERY * plain, CLEAR_EVERY), tells=False)
        learn(house, client, desk, LEARNING, task)
        show(told_name(number), range(FIRST_TOLD, FIRST_TOLD + told), tells=True)


def plain_name(number: int) -> str:
    """The sweep of a site's demonstrations without advice."""
    return f"school{number}-plain"


def told_name(number: int) -> str:
    """The sweep of a site's demonstrations with advice in their prompts."""
    return f"school{number}-told"
