"""SmolLM2 on pages that others made: adapted once on other tasks, then frozen, so that it gets better by lessons alone.

It is shown what is visible, and answers with the words that it clicks (see benchmarks.real.clicks).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from agents.envs.miniwob.environment import MiniWob
from agents.envs.miniwob.tabs import Tabs, open_tabs
from agents.executors.executor import Executor
from agents.executors.local import LocalPolicies
from agents.executors.open_actions import open_step
from agents.learning.step_words import say_step
from agents.models.local.host import Host
from agents.models.local.network import TransformersEngine
from api.course import Course
from api.datasets.demonstrations import keep_tokens
from api.house import House
from api.reporter import Reporter
from api.sweeps.plan import site_templates
from api.training.bases import add_base, find_source
from api.training.weights import base_of, folders_of
from benchmarks.demo_miniwob.__main__ import FIRST_HELD_OUT
from benchmarks.real.clicks import CLICK, clicks_on
from benchmarks.resuming import house_on, server_in, train_once
from eventlog.events import Lora, PieceKind, SftConfig, SftQuery
from eventlog.weights_folder import Base

from .click_school import TASKS, demonstrate_clicks
from .learning import ABLATIONS, Case, Measured, Sizes, measure, project_of, reflecting
from .policy import ACTOR, BASE

JUDGED: Final = {
    "click-test": "other label",
    "click-dialog": "other label",
    "click-dialog-2": "other label of one in three",
    "focus-text": "field without a label",
    "click-color": "nothing to read",
}
"""Tasks by name, with what is in the way of a click by words; the last one has no words to click."""

UNCURED: Final = "click-color"
PROPOSED: Final = ("Click Me!", "Close", "field 1", "Submit")
LESSONS: Final = tuple(f"At the start: {say_step(open_step(CLICK.name, name), name)}." for name in PROPOSED)
"""Sentences that a model might propose, at most one of which helps with a task."""

TOGETHER: Final[dict[str, frozenset[PieceKind]]] = {"contrast and reflection": frozenset({"exemplar", "recipe"})}
ALONE: Final = {lessons: ABLATIONS[lessons] for lessons in ("contrast alone", "reflection alone")}
KINDS: Final = TOGETHER | ALONE
MOST_STEPS: Final = 3
SIZES: Final = Sizes(found=8, tried=8, sealed=40, rounds=9)
SFT: Final = SftConfig(steps=48, learning_rate="0.0005", rows_per_step=8, threads=2, lora=Lora(rank=16, alpha=32))


@dataclass(frozen=True, slots=True)
class ClickEffort:
    """Demonstrations of each task of the school, and what is judged. At `temperature_micro` it learns."""

    shown: int = 96
    sizes: Sizes = SIZES
    at_once: int = 32
    temperature_micro: int = 1_000_000
    sft: SftConfig = SFT


def quick_clicks() -> ClickEffort:
    """A trial of every part, in which nothing can be learned."""
    whole = ClickEffort()
    sft = whole.sft.model_copy(update={"steps": 1, "rows_per_step": 2})
    return replace(whole, shown=4, sizes=Sizes(found=1, tried=1, sealed=2, rounds=1), at_once=4, sft=sft)


def measured_clicks(
    folder: Path, effort: ClickEffort, chromium: Path | None, reporter: Reporter
) -> tuple[list[Measured], str]:
    """Adapt the base on the school's pages, and measure each judged task; with what it was adapted on, in words."""
    settings = {"policy_wording": "brief", "model_threads": effort.sft.threads}
    found: list[Measured] = []
    with (
        server_in(folder) as server,
        house_on(server, folder, "clicks", **settings) as house,
        open_tabs(chromium) as tabs,
    ):
        base = base_of(house, add_base(house, find_source(BASE, None, None)).base, None)
        weights, rows = adapt_clicks(house, tabs, base, effort, reporter)
        with closing(Host(base.path, TransformersEngine(threads=effort.sft.threads))) as host:
            executor = LocalPolicies(host, folders_of(house), clicks_on(tabs), "brief")
            for lessons, task in todo():
                project = project_of(task, KINDS[lessons])
                with (
                    house_on(server, folder, project, **settings) as own,
                    open_clicks(task, tabs, executor, weights, effort, reporter) as case,
                    reflecting(own.settings, LESSONS) as reflected,
                ):
                    here = replace(own, settings=reflected)
                    found.append(measure(here, case, lessons, KINDS[lessons], effort.sizes))
                reporter.say(f"{found[-1]}")
    return found, (
        f"SmolLM2-135M-Instruct, adapted by {effort.sft.steps} steps of {effort.sft.rows_per_step} rows on {rows} "
        f"demonstrations on {len(TASKS)} other tasks."
    )


def todo() -> Iterator[tuple[str, str]]:
    """Kinds of lessons by name, and the task that is learned by them."""
    yield from product(TOGETHER, JUDGED)
    yield from product(ALONE, [task for task in JUDGED if task != UNCURED])


def adapt_clicks(house: House, tabs: Tabs, base: Base, effort: ClickEffort, reporter: Reporter) -> tuple[str, int]:
    """The checkpoint that the policy plays with from here on, and the number of rows that it was trained on."""
    names = demonstrate_clicks(house, tabs, effort.shown, Course(max_parallel=4), reporter)
    query = SftQuery(runs="demonstration", sweep=names, tokens=keep_tokens(house.blobs, base.path))
    state, rows = train_once(house, query, base, effort.sft, reporter, ACTOR)
    return state.checkpoint, rows


@contextmanager
def open_clicks(
    name: str, tabs: Tabs, executor: Executor, weights: str, effort: ClickEffort, reporter: Reporter
) -> Iterator[Case]:
    """Yield a task for the policy, in tabs that are open."""
    with MiniWob(name, tabs) as environment:
        (task,) = site_templates(environment)
        course = Course(max_parallel=effort.at_once, temperature_micro=effort.temperature_micro)
        yield Case(
            obstacle=JUDGED[name],
            site=environment.name,
            task=task.model_copy(update={"max_steps": MOST_STEPS}),
            environment=environment,
            learner=executor,
            knower=executor,
            pool=LESSONS,
            sealed_from=FIRST_HELD_OUT,
            is_control=name == UNCURED,
            weights=weights,
            temperatures=(course.temperature_micro,),
            course=course,
            reporter=reporter,
        )
