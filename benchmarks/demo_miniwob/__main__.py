"""`make demo-miniwob`: foreign pages, frozen against what the agent's own runs taught, on seeds not learned from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from agents.envs.miniwob.environment import MiniWob
from agents.envs.miniwob.plans import PLANS
from agents.envs.miniwob.tabs import Tabs, open_tabs
from agents.executors.miniwob_plan import MiniWobPlan
from api.cli.output import TerminalReporter
from api.decide import Course
from api.house import House
from api.settings import read_settings
from api.sweeping import first_facts
from benchmarks.log.server import own_server
from benchmarks.report import Target, at_least, report
from eventlog.blobs import PostgresBlobs
from eventlog.events import SeedsRule
from eventlog.postgres import PostgresStore
from gate.intervals import resampled
from gate.stats import MICRO, averaged, bootstrap
from gate.strata import stratified
from projections.projector import Projector

from .held_out import LEARNED, Played, arms, play_held_out
from .learning import Learner

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "miniwob.md"
PROJECT = "miniwob"
FIRST_HELD_OUT = 20_000
SAMPLES, SEED = 10_000, 7
ABOVE_ZERO = 1 / MICRO
OVER_TASKS, OVER_INSTANCES = "mean gain, tasks resampled", "mean gain, instances resampled inside tasks"


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Four tasks and few seeds, to try it out.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Write the table into {PAGE.name} too.")] = False,
    held_out: Annotated[int, typer.Option(min=2, help="Held-out seeds for each task.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="Training seeds for each task and round.")] = 6,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of learning for each task, at most.")] = 5,
    max_parallel: Annotated[int, typer.Option(min=1, help="Pages open side by side.")] = 4,
) -> None:
    """Learn on training seeds, then play held-out ones twice: with empty memory, and with what was learned."""
    if write and quick:
        raise typer.BadParameter("--write is for a whole run: leave out --quick")
    tasks = ("click-button", "click-dialog", "enter-text", "focus-text") if quick else tuple(PLANS)
    amount = 4 if quick else held_out
    course = Course(rule=SeedsRule(), max_parallel=max_parallel)
    began = time.perf_counter()
    with house_of_its_own() as house, open_tabs(house.settings.browser) as tabs:
        runs = learned(house, tabs, tasks, course, seeds, rounds)
        learning = time.perf_counter() - began
        played = measured(house, tabs, tasks, course, range(FIRST_HELD_OUT, FIRST_HELD_OUT + amount))
    figures, intervals = figures_of(played)
    figures |= {
        "learning, runs": runs,
        "learning, minutes": learning / 60,
        "all of it, minutes": (time.perf_counter() - began) / 60,
    }
    note = f"{len(tasks)} tasks, {amount} held-out seeds each, {os.cpu_count()} cores; {runs} runs to learn from."
    targets = targets_of(figures)
    report("miniwob", figures, targets, intervals=intervals, page=PAGE if write else None, note=note)


@contextmanager
def house_of_its_own() -> Iterator[House]:
    """A log of its own with the first facts in it."""
    with own_server() as server:
        server.project(PROJECT)
        engine = server.engine(PROJECT)
        try:
            store = PostgresStore(engine)
            blobs = PostgresBlobs(engine)
            house = House(read_settings(), engine, store, blobs, Projector(engine, store=store))
            first_facts(house)
            yield house
        finally:
            engine.dispose()


def learned(house: House, tabs: Tabs, tasks: Sequence[str], course: Course, seeds: int, rounds: int) -> int:
    """Have every task learn; how many runs it took."""
    learner = Learner(house, MiniWobPlan(tabs), course, TerminalReporter(), seeds, rounds)
    runs = 0
    for task in tasks:
        with MiniWob(task, tabs) as environment:
            runs += learner.learn(environment)
    return runs


def measured(house: House, tabs: Tabs, tasks: Sequence[str], course: Course, seeds: Sequence[int]) -> list[Played]:
    """Every task's held-out seeds in both arms."""
    found = []
    both, executor, reporter = arms(house), MiniWobPlan(tabs), TerminalReporter()
    for task in tasks:
        with MiniWob(task, tabs) as environment:
            found += [play_held_out(house, environment, arm, seeds, executor, course, reporter) for arm in both]
    return found


def figures_of(played: Sequence[Played]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Rates of every task in both arms, and the mean gain with intervals. A missing run makes no pair."""
    figures = {f"{each.task}, {each.arm}": each.rate for each in played}
    gains = {task: _gains(frozen, after) for task, frozen, after in _pairs(played)}
    strata = stratified((task, [gain]) for task, found in gains.items() for gain in found)
    inside = resampled(strata, SAMPLES, SEED).interval
    across = bootstrap(averaged(list(gains.values())), SAMPLES, SEED).interval
    for arm in dict.fromkeys(each.arm for each in played):
        rates = [each.rate for each in played if each.arm == arm]
        figures[f"all tasks, {arm}"] = sum(rates) / len(rates)
    figures |= {OVER_TASKS: strata.mean() / MICRO, OVER_INSTANCES: strata.mean() / MICRO}
    figures |= {f"{OVER_TASKS}, interval from": across.low / MICRO, "pairs": sum(map(len, gains.values()))}
    figures["tasks that gained"] = sum(sum(found) > 0 for found in gains.values())
    figures["tasks that lost"] = sum(sum(found) < 0 for found in gains.values())
    spans = {OVER_TASKS: across, OVER_INSTANCES: inside}
    return figures, {name: (span.low / MICRO, span.high / MICRO) for name, span in spans.items()}


def _pairs(played: Sequence[Played]) -> Iterator[tuple[str, Played, Played]]:
    learned_by_task = {each.task: each for each in played if each.arm == LEARNED}
    for each in played:
        if each.arm != LEARNED:
            yield each.task, each, learned_by_task[each.task]


def _gains(frozen: Played, after: Played) -> list[int]:
    """What each instance gained, in millionths."""
    pairs = zip(frozen.passed, after.passed, strict=True)
    return [MICRO * (late - early) for early, late in pairs if early is not None and late is not None]


def targets_of(figures: dict[str, float]) -> dict[str, Target]:
    """The interval of the mean gain lies above zero, even where the tasks themselves are drawn again."""
    return {name: at_least(ABOVE_ZERO) for name in figures if name.endswith("interval from")}


if __name__ == "__main__":
    typer.run(main)
