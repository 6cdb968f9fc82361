"""`make demo-agents`: what lessons in words bring by themselves, to a rule agent and to a policy of frozen weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import track

from agents.envs.miniwob.tabs import open_tabs
from agents.learning.advice import BRIEF_BUDGET
from api.cli.output import TerminalReporter
from api.house import House
from api.settings import Settings
from api.sweeps.plan import first_facts
from benchmarks.log.server import Server, own_server
from eventlog.blobs import PostgresBlobs
from eventlog.postgres import PostgresStore
from projections.engine.projector import Projector

from .learning import ABLATIONS, Case, Measured, Sizes, measure, reflecting
from .pages import OBSTACLES, UNCURED, open_page
from .rules import chance_desk, drawn_desks, open_chance, open_desk
from .tables import tell

FOLDER: Final = Path(".flywheel/demo-agents")
Opened = Callable[[], AbstractContextManager[Case]]

QUICK: Final = Sizes(found=4, sealed=16, rounds=4)
PAGES: Final = Sizes(found=4, sealed=40, rounds=6)
BY_CHANCE: Final = Sizes(rounds=100)
QUICK_CHANCE: Final = Sizes(found=4, sealed=16, rounds=8)
QUICK_PAGES: Final = Sizes(found=2, tried=3, sealed=4, rounds=1)


class Part(StrEnum):
    """What is measured."""

    RULES = "rules"
    CHANCE = "chance"
    MINIWOB = "miniwob"
    POLICY = "policy"
    ALONE = "policy-alone"
    CLICKS = "clicks"


def main(
    *,
    parts: Annotated[list[Part], typer.Option("--part", help="Parts to measure.")] = list(Part),  # noqa: B006
    quick: Annotated[bool, typer.Option("--quick", help="Two tasks of each part, few seeds.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Also write the tables of these parts into the page.")] = False,
    seed: Annotated[int, typer.Option(help="Seed that draws the rule agent's sites.")] = 0,
    folder: Annotated[Path, typer.Option(help="Folder of the policies' logs, base and checkpoints.")] = FOLDER,
) -> None:
    """Let an agent learn each task, by each kind of lesson, and print its success before and after.

    The parts of policies go on where their last call ended.
    """
    if Part.RULES in parts:
        began = time.perf_counter()
        desks = drawn_desks(seed, is_short=quick)
        found = measured(product([partial(open_desk, desk) for desk in desks], ABLATIONS), QUICK if quick else Sizes())
        tell(Part.RULES, found, _minutes(began), note_of(QUICK if quick else Sizes(), quick=quick), write=write)
    if Part.CHANCE in parts:
        began, sizes = time.perf_counter(), QUICK_CHANCE if quick else BY_CHANCE
        drawn = [(partial(open_chance, chance_desk(seed, luck)), name) for luck, name in enumerate(ABLATIONS)]
        found = measured(drawn, sizes)
        tell(Part.CHANCE, found, _minutes(began), note_of(sizes, quick=quick), write=write)
    if Part.MINIWOB in parts:
        began, sizes = time.perf_counter(), QUICK_PAGES if quick else PAGES
        names = [name for name in OBSTACLES if not quick or name in {"click-test", UNCURED}]
        with open_tabs(Settings().browser) as tabs:
            found = measured(product([partial(open_page, name, tabs) for name in names], ABLATIONS), sizes)
        tell(Part.MINIWOB, found, _minutes(began), note_of(sizes, quick=quick), write=write)
    for part in (each for each in (Part.POLICY, Part.ALONE) if each in parts):
        from .policy import Effort, measured_policy  # noqa: PLC0415 the other parts need no training libraries
        from .policy import quick as small  # noqa: PLC0415

        began, effort = time.perf_counter(), small() if quick else Effort()
        place = (folder / "quick" if quick else folder).resolve()
        place.mkdir(parents=True, exist_ok=True)
        found, adapted = measured_policy(place, effort, TerminalReporter(), is_alone=part is Part.ALONE)
        tell(part, found, _minutes(began), f"{note_of(effort.sizes, quick=quick)} {adapted}", BRIEF_BUDGET, write=write)
    if Part.CLICKS in parts:
        from .clicking import ClickEffort, measured_clicks, quick_clicks  # noqa: PLC0415 as above

        began, clicks = time.perf_counter(), quick_clicks() if quick else ClickEffort()
        place = (folder / "quick" if quick else folder).resolve()
        place.mkdir(parents=True, exist_ok=True)
        found, adapted = measured_clicks(place, clicks, Settings().browser, TerminalReporter())
        note = f"{note_of(clicks.sizes, quick=quick)} {adapted}"
        tell(Part.CLICKS, found, _minutes(began), note, BRIEF_BUDGET, write=write)


def measured(todo: Iterable[tuple[Opened, str]], sizes: Sizes) -> list[Measured]:
    """Each of these tasks by kinds of lessons, in a project of its own."""
    with own_server() as server:
        return [
            measured_alone(server, f"agents_{number}", opened, lessons, sizes)
            for number, (opened, lessons) in enumerate(track([*todo], "learning"))
        ]


def measured_alone(server: Server, project: str, opened: Opened, lessons: str, sizes: Sizes) -> Measured:
    """One task by some kinds of lessons, in a new project."""
    server.project(project)
    engine = server.engine(project)
    try:
        store = PostgresStore(engine)
        with opened() as case, reflecting(Settings(), case.pool) as settings:
            house = House(settings, engine, store, PostgresBlobs(engine), Projector(engine, store=store))
            first_facts(house)
            return measure(house, case, lessons, ABLATIONS[lessons], sizes)
    finally:
        engine.dispose()


def note_of(sizes: Sizes, *, quick: bool) -> str:
    """With what a part was measured."""
    form = "The short form (`--quick`): " if quick else ""
    return (
        f"{form}{sizes.found} seeds in the first sweep, up to {sizes.rounds} rounds of {sizes.tried} seeds of trials, "
        f"{sizes.sealed} sealed seeds an arm."
    )


def _minutes(began: float) -> float:
    return (time.perf_counter() - began) / 60


if __name__ == "__main__":
    typer.run(main)
