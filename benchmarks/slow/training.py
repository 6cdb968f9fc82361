"""Datasets and training stages of the demonstration, recorded in its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from agents.executors.policy import NAME
from api.cli.output import TerminalReporter
from api.datasets import freeze
from api.house import House
from api.queries.datasets import find_dataset
from api.training.lineage import lineage
from api.training.stage_process import Line
from api.training.stages import Stage, train_stage
from api.training.weights import folder_of
from eventlog.events import Query
from eventlog.store import Position
from projections.checkpoints import WeightsState
from projections.frozen_datasets import DatasetState
from projections.runs import RUNS

ACTOR = "demo"
_RUN_COLUMNS = frozenset({"run", "chosen_run", "rejected_run"})


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint of the demonstration and its folder."""

    state: WeightsState
    folder: Path

    @property
    def digest(self) -> str:
        """Digest of the checkpoint."""
        return self.state.checkpoint


def frozen(house: House, query: Query, name: str) -> DatasetState:
    """Freeze the dataset of a query at the head of a log, and print its size. Raises EmptyDataset."""
    made = freeze.refuse_empty(freeze.make_rows(house.store, house.blobs, house.views(), query))
    refused = ", ".join(f"{item.runs} {item.reason}" for item in made.refused) or "none"
    TerminalReporter().say(f"{name}: {made.height} rows of {made.groups} groups; refused: {refused}")
    digest = freeze.freeze_dataset(house.store, made, ACTOR)
    return find_dataset(house.views(), digest)


def trained(house: House, stage: Stage) -> Saved:
    """Train a stage. Raises as `train_stage`."""
    state = train_stage(house, stage, _unwatched, ACTOR)
    return Saved(state, folder_of(house, state.checkpoint))


def tell_lineage(house: House, saved: Saved) -> None:
    """Say what a checkpoint came from, as its log has it."""
    for step in lineage(house, house.views(), saved.digest).lineage:
        runs = [run for group in step.groups.values() for run in group]
        places = f"positions {min(run.first for run in runs)} to {max(run.last for run in runs)}"
        TerminalReporter().say(
            f"{step.checkpoint.algorithm} {step.checkpoint.checkpoint[:12]}: dataset {step.dataset.dataset[:12]}, "
            f"{len(step.groups)} groups, {len(runs)} runs, {places}"
        )


def foreign_runs(house: House, dataset: DatasetState) -> int:
    """Number of runs in a dataset that were not played by the policy's executor; rebuilds the rows."""
    at, found = house.views(Position(dataset.upto)), set[str]()

    def note(rows: pl.DataFrame) -> None:
        for column in _RUN_COLUMNS & set(rows.columns):
            found.update(rows[column])

    freeze.again(dataset, lambda: freeze.make_rows(house.store, house.blobs, at, dataset.parse_query(), note))
    runs = at.find(RUNS)
    return sum(runs[run].executor != NAME for run in found)


def _unwatched(line: Line) -> None:
    """Ignore the progress lines of a stage."""
