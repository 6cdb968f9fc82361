"""What a demonstration that goes on where a killed call ended finds again in the log of its folder: sweeps, weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agents.envs.environment import Environment
from agents.executors.executor import Executor
from api import embedded
from api.course import Course
from api.datasets import freeze
from api.house import House, open_house
from api.queries.datasets import find_dataset
from api.queries.sweeps import plans_of
from api.reporter import Reporter
from api.settings import Settings
from api.sweeps.plan import first_facts
from api.sweeps.play import play_sweep
from api.training.stages import Stage, train_stage
from benchmarks.log.server import Server
from eventlog.events import SftConfig, SftQuery, SweepPlanned
from eventlog.weights_folder import Base
from projections.checkpoints import WeightsState
from projections.frozen_datasets import CHECKPOINTS, DatasetState


def sweep_named(house: House, name: str) -> SweepPlanned | None:
    """The sweep of this name; None if none was planned."""
    return next(iter(plans_of(house.store, house.views(), name)), None)


def play_or_go_on(
    house: House,
    environment: Environment,
    name: str,
    planned: Callable[[], SweepPlanned],
    course: Course,
    reporter: Reporter,
    executor: Executor,
) -> SweepPlanned:
    """Play what is left of a sweep, which is planned if it is not in the log."""
    sweep = sweep_named(house, name) or planned()
    play_sweep(house, environment, sweep, course, reporter, executor)
    return sweep


@contextmanager
def server_in(folder: Path) -> Iterator[Server]:
    """Start the database server of a folder, and stop it at the end."""
    found = embedded.up(folder)
    try:
        yield Server(found.owner_url, found.app_url)
    finally:
        embedded.down(folder)


@contextmanager
def house_on(server: Server, folder: Path, project: str, **settings: Any) -> Iterator[House]:
    """Open the log of a project on a folder's server, with its initial facts and more settings."""
    server.project(project)
    own = Settings(
        home=folder,
        project=project,
        database_url=SecretStr(server.app_url),
        owner_url=SecretStr(server.owner_url),
        **settings,
    )
    with closing(open_house(own)) as house:
        first_facts(house)
        yield house


@contextmanager
def house_in(folder: Path, project: str, **settings: Any) -> Iterator[House]:
    """Open the log of a project in a folder, with its initial facts and more settings."""
    with server_in(folder) as server, house_on(server, folder, project, **settings) as house:
        yield house


def train_once(
    house: House, query: SftQuery, base: Base, config: SftConfig, reporter: Reporter, actor: str
) -> tuple[WeightsState, int]:
    """SFT of the base on the rows of a query; the checkpoint and the number of rows. What was done is found again.

    Raises EmptyDataset, and what train_stage does.
    """
    dataset, losses = _frozen(house, query, actor), list[float]()
    with reporter.phase(f"SFT on {dataset.rows} demonstrations", config.steps) as advance:

        def watch(line: object) -> None:
            if isinstance(line, dict) and line["kind"] == "step":
                losses.append(float(line["loss"]))
                advance()

        state = train_stage(house, Stage(dataset, base, None, config), watch, actor)
    reporter.say(f"SFT: loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last" if losses else "SFT: was done")
    return state, dataset.rows


def _frozen(house: House, query: SftQuery, actor: str) -> DatasetState:
    """The dataset of a query, frozen at the first call. Raises EmptyDataset."""
    for each in house.views().find(CHECKPOINTS).values():
        if each.parse_query() == query:
            return each
    made = freeze.refuse_empty(freeze.make_rows(house.store, house.blobs, house.views(), query))
    digest = freeze.freeze_dataset(house.store, made, actor)
    return find_dataset(house.views(), digest)
