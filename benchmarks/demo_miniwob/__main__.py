"""`make demo-miniwob`: success on MiniWoB++ with empty memory and with learned memory, on held-out seeds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from agents.envs.miniwob.environment import MiniWob
from agents.envs.miniwob.tabs import Tabs, open_tabs
from agents.executors.miniwob.plan import MiniWobPlan
from api.cli.output import bar
from api.course import Course
from api.house import House
from api.reporter import Advance
from api.settings import read_settings
from api.sweeps.plan import first_facts
from benchmarks.log.server import own_server
from benchmarks.report import Target, at_least, report
from benchmarks.shipped import PAGE_PLANS as PLANS
from eventlog.blobs import PostgresBlobs
from eventlog.events import SeedsRule
from eventlog.postgres import PostgresStore
from gate.intervals import resample
from gate.stats import MICRO, average_repeats, bootstrap
from gate.strata import stratify
from projections.engine.projector import Projector

from .held_out import LEARNED, Played, arms, play_held_out
from .learning import Learner

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "miniwob.md"
PROJECT = "miniwob"
QUICK = ("click-button", "click-dialog", "enter-text", "focus-text")
T = TypeVar("T")
FIRST_HELD_OUT = 20_000
SAMPLES, SEED = 10_000, 7
ABOVE_ZERO = 1 / MICRO
OVER_TASKS, OVER_INSTANCES = "mean gain, tasks resampled", "mean gain, instances resampled inside tasks"


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run four tasks and few seeds, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
    held_out: Annotated[int, typer.Option(min=2, help="Held-out seeds per task.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="Training seeds for trials, per task and round.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Maximum rounds of learning per task.")] = 4,
    every_task: Annotated[bool, typer.Option("--every-task", help="Include all tasks of the same families.")] = False,
    side_by_side: Annotated[int, typer.Option(min=1, help="Tasks that run in parallel, with two pages each.")] = 4,
) -> None:
    """Learn on training seeds, then play held-out seeds twice: with empty memory and with the learned memory."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    tasks = QUICK if quick else tuple(PLANS) if every_task else families()
    amount = 4 if quick else held_out
    course = Course(rule=SeedsRule(), max_parallel=2)
    began = time.perf_counter()
    with house_of_its_own() as house, open_tabs(house.settings.browser) as tabs:
        each = Each(house, tabs, tasks, course, side_by_side)
        runs = each.learned(seeds, rounds)
        learning = time.perf_counter() - began
        played = each.measured(range(FIRST_HELD_OUT, FIRST_HELD_OUT + amount))
    figures, intervals = figures_of(played)
    if not figures["pairs"]:
        raise SystemExit("no instance was played in both arms, so nothing can be compared")
    figures |= {
        "learning, runs": runs,
        "learning, minutes": learning / 60,
        "all of it, minutes": (time.perf_counter() - began) / 60,
    }
    note = f"{len(tasks)} tasks, {amount} held-out seeds each, {os.cpu_count()} cores; {runs} runs to learn from."
    if left_out := without_pairs(played):
        note += f" Left out of every mean, because no seed was played in both arms: {', '.join(left_out)}."
    targets = targets_of(figures)
    report("miniwob", figures, targets, intervals=intervals, page=PAGE if write else None, note=note)


@contextmanager
def house_of_its_own() -> Iterator[House]:
    """Yield a new log with its initial events."""
    with own_server() as server:
        server.project(PROJECT)
        engine = server.engine(PROJECT, pool_size=16)
        try:
            store = PostgresStore(engine)
            blobs = PostgresBlobs(engine)
            house = House(read_settings(), engine, store, blobs, Projector(engine, store=store))
            first_facts(house)
            yield house
        finally:
            engine.dispose()


def families() -> tuple[str, ...]:
    """One task of each family: tasks whose name does not extend another task's name, as `click-tab-2` does."""
    return tuple(name for name in PLANS if not any(name.startswith(f"{other}-") for other in PLANS))


class Quiet:
    """A reporter without output, because several tasks run in parallel."""

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Advance]:  # noqa: ARG002 a Reporter's
        """See Reporter."""
        yield lambda **_: None

    def say(self, text: str) -> None:
        """See Reporter."""


@dataclass(frozen=True, slots=True)
class Each:
    """Runs all tasks, some in parallel, under one progress bar."""

    house: House
    tabs: Tabs
    tasks: Sequence[str]
    course: Course
    side_by_side: int

    def learned(self, seeds: int, rounds: int) -> int:
        """Let every task learn; return the number of runs."""
        learner = Learner(self.house, MiniWobPlan(self.tabs), self.course, Quiet(), seeds, rounds)
        return sum(self._done("learning", learner.learn))

    def measured(self, seeds: Sequence[int]) -> list[Played]:
        """Play the held-out seeds of every task in both arms."""
        both, executor = arms(self.house), MiniWobPlan(self.tabs)

        def play(environment: MiniWob) -> list[Played]:
            return [play_held_out(self.house, environment, arm, seeds, executor, self.course, Quiet()) for arm in both]

        return [played for found in self._done("held-out seeds, twice", play) for played in found]

    def _done(self, title: str, work: Callable[[MiniWob], T]) -> list[T]:
        with bar(title, len(self.tasks)) as advance, ThreadPoolExecutor(self.side_by_side) as pool:

            def one(task: str) -> T:
                with MiniWob(task, self.tabs) as environment:
                    found = work(environment)
                advance()
                return found

            return list(pool.map(one, self.tasks))


def figures_of(played: Sequence[Played]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Success rates of every task in both arms, and the mean gain with intervals.

    A missing run removes its pair, and a task without pairs is excluded from every mean. Without any pairs no gain is
    reported.
    """
    left_out = without_pairs(played)
    figures: dict[str, float] = {f"{each.task}, {each.arm}": each.rate for each in played}
    gains = {task: found for task, frozen, after in _pairs(played) if (found := _gains(frozen, after))}
    figures |= {"pairs": sum(map(len, gains.values())), "tasks without a pair": len(left_out)}
    if not gains:
        return figures, {}
    strata = stratify((task, [gain]) for task, found in gains.items() for gain in found)
    inside = resample(strata, SAMPLES, SEED).interval
    across = bootstrap(average_repeats(list(gains.values())), SAMPLES, SEED).interval
    for arm in dict.fromkeys(each.arm for each in played):
        rates = [each.rate for each in played if each.arm == arm and each.task not in left_out]
        figures[f"all tasks, {arm}"] = sum(rates) / len(rates)
    figures |= {OVER_TASKS: strata.mean() / MICRO, OVER_INSTANCES: strata.mean() / MICRO}
    figures[f"{OVER_TASKS}, interval from"] = across.low / MICRO
    figures["tasks that gained"] = sum(sum(found) > 0 for found in gains.values())
    figures["tasks that lost"] = sum(sum(found) < 0 for found in gains.values())
    spans = {OVER_TASKS: across, OVER_INSTANCES: inside}
    return figures, {name: (span.low / MICRO, span.high / MICRO) for name, span in spans.items()}


def without_pairs(played: Sequence[Played]) -> tuple[str, ...]:
    """Tasks without an instance played in both arms, so their gain is unknown."""
    return tuple(task for task, frozen, after in _pairs(played) if not _gains(frozen, after))


def _pairs(played: Sequence[Played]) -> Iterator[tuple[str, Played, Played]]:
    learned_by_task = {each.task: each for each in played if each.arm == LEARNED}
    for each in played:
        if each.arm != LEARNED:
            yield each.task, each, learned_by_task[each.task]


def _gains(frozen: Played, after: Played) -> list[int]:
    """Gain of each instance, in millionths."""
    pairs = zip(frozen.passed, after.passed, strict=True)
    return [MICRO * (late - early) for early, late in pairs if early is not None and late is not None]


def targets_of(figures: dict[str, float]) -> dict[str, Target]:
    """Target that the interval of the mean gain lies above zero, also when tasks are resampled."""
    return {name: at_least(ABOVE_ZERO) for name in figures if name.endswith("interval from")}


if __name__ == "__main__":
    typer.run(main)
