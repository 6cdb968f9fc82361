"""The sites on which the policy is adapted, none of which is judged, and its demonstrations there."""

from __future__ import annotations

from dataclasses import replace
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
from tests.desks.grammar import Combination, DeskKind, Words, mix_words
from tests.desks.serving import serve_desk
from tests.desks.site import template_of

MOST_STEPS: Final = 10
"""Twice what the plan takes. A policy that has learned nothing goes on until it is stopped."""

FIRST_PLAIN: Final = 4_000
FIRST_TOLD: Final = 6_000
LEARNING: Final = Sizes(found=6, groups=20)
OBSTACLES: Final[tuple[Combination, ...]] = (("missing prerequisite",), ("extra confirmation",), ("moved address",))
"""Those that plans cure by a change of a step, which is told in the words in which a policy's own lessons are told."""

MUSEUM: Final = Words(
    site="museum",
    things="Guided tours",
    address="/tours",
    kinds=("Mosaic", "Armour", "Portrait", "Fossil", "Tapestry"),
    branches=("Any wing", "East wing", "Garden", "Cellar", "Tower", "Chapel"),
    branch="Cellar",
    who="Name of the guest",
    send="Book",
    renamed="Book this tour",
    tabs=("About", "Prices", "Booking"),
    gate=("I am an adult", "Continue to booking"),
    prerequisite="I will not touch anything",
    confirm=("The day is right", "Confirm booking"),
    further="Later tours",
    moved=("/visits", "/guides/list", "/programme"),
)
KENNEL: Final = Words(
    site="kennel",
    things="Dogs",
    address="/dogs",
    kinds=("Beagle", "Collie", "Poodle", "Whippet", "Mastiff"),
    branches=("All houses", "Puppy house", "Quiet house", "Yard", "Annex", "Barn"),
    branch="Yard",
    who="New owner",
    send="Adopt",
    renamed="Adopt this dog",
    tabs=("Habits", "Health", "Adoption"),
    gate=("I have a garden", "Go to adoption"),
    prerequisite="I have time for walks",
    confirm=("The family agrees", "Confirm adoption"),
    further="Other dogs",
    moved=("/animals", "/residents/dogs", "/friends"),
)
MARINA: Final = Words(
    site="marina",
    things="Berths",
    address="/berths",
    kinds=("Pontoon", "Mudberth", "Drydock", "Swing", "Finger"),
    branches=("Every basin", "Inner basin", "Outer basin", "Canal", "Lagoon", "Lock"),
    branch="Canal",
    who="Skipper",
    send="Rent",
    renamed="Rent this berth",
    tabs=("Depth", "Power", "Renting"),
    gate=("My boat is insured", "Proceed to renting"),
    prerequisite="I know the harbour rules",
    confirm=("The length is right", "Confirm the rent"),
    further="Next berths",
    moved=("/moorings", "/port/places", "/pontoons"),
)
STUDIO: Final = Words(
    site="studio",
    things="Courses",
    address="/courses",
    kinds=("Pottery", "Weaving", "Etching", "Glazing", "Origami"),
    branches=("Any day", "Monday", "Weekend", "Evening", "Holidays", "Morning"),
    branch="Evening",
    who="Student",
    send="Enrol",
    renamed="Enrol in this course",
    tabs=("Contents", "Teacher", "Enrolment"),
    gate=("I am a beginner", "On to enrolment"),
    prerequisite="I bring my own apron",
    confirm=("The date suits me", "Confirm enrolment"),
    further="More courses",
    moved=("/classes", "/learn/all", "/workshops"),
)
SCHOOL_WORDS: Final = (MUSEUM, KENNEL, MARINA, STUDIO)


def school_desk(number: int) -> DeskKind:
    """The site of a number: its obstacle by turns, its words mixed from those of kinds of sites that are not judged."""
    mixed = mix_words(number, SCHOOL_WORDS)
    words = replace(mixed, site=f"school{number}", address=f"/{mixed.things.lower().replace(' ', '-')}")
    return DeskKind(words, OBSTACLES[number % len(OBSTACLES)])


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
