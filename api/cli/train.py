"""`flywheel train`: run one training stage, from a frozen dataset to a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from pydantic import ValidationError

from eventlog.events import StageConfig, stage_config_of
from projections.checkpoints import WeightsState

from ..queries.checkpoints import find_adapter
from ..queries.datasets import find_dataset
from ..training.errors import BadConfig
from ..training.stages import Stage, Watch, train_stage, watch_progress
from ..training.weights import base_of
from .output import AsJson, TerminalReporter, emit_json, open_project, print_facts


class TrainingAlgorithm(StrEnum):
    """Training algorithm of a stage."""

    WARMUP = "warmup"
    SFT = "sft"
    DPO = "dpo"
    GRPO = "grpo"


BaseOf = Annotated[
    str | None, typer.Option("--base", help="The base model: a folder, or the digest of one made by a warm-up.")
]


def train(
    kind: Annotated[TrainingAlgorithm, typer.Argument(help="The algorithm.")],
    *,
    dataset: Annotated[str, typer.Option(help="The dataset's digest, or its first eight characters or more.")],
    base: BaseOf = None,
    parent: Annotated[str | None, typer.Option("--from", help="The checkpoint to continue from [none].")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates of the weights.")] = None,
    learning_rate: Annotated[str | None, typer.Option(help="Such as 0.0002 or 2e-4.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all random choices [0].")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of processes that share each step, one GPU each [1].")
    ] = None,
    rows_per_pass: Annotated[
        int | None, typer.Option(min=1, help="Most rows that go through the model at once [by memory; grpo 32].")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="JSON file with more fields (docs/training.md).")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on a dataset and save the checkpoint. An identical earlier stage is reused, not trained again."""
    given = {"steps": steps, "learning_rate": learning_rate, "seed": seed, "processes": processes}
    given |= {"rows_per_pass": rows_per_pass}
    asked = config_of(kind, config, {name: value for name, value in given.items() if value is not None})
    with open_project() as house:
        views = house.views()
        goes_on = None if parent is None else find_adapter(views, parent)
        found = base_of(house, base, None if goes_on is None else goes_on.base)
        stage = Stage(find_dataset(views, dataset), found, goes_on, asked)
        with training_bar(stage.name, asked.steps) as watch:
            saved = train_stage(house, stage, watch)
    row = row_of_checkpoint(saved)
    emit_json(row) if as_json else print_facts(list(row.items()))


def config_of(kind: TrainingAlgorithm, file: Path | None, options: Mapping[str, Any]) -> StageConfig:
    """The configuration from a file and options; options override the file. Raises BadConfig."""
    try:
        said = {} if file is None else json.loads(file.read_bytes())
        return stage_config_of({**said, **options, "algorithm": kind.value})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the top"
        raise BadConfig(algorithm=kind.value, where=where, actual=first["msg"]) from error
    except (ValueError, TypeError) as error:
        raise BadConfig(algorithm=kind.value, where=file, actual=f"not a JSON object: {error}") from error


def row_of_checkpoint(state: WeightsState) -> dict[str, Any]:
    """A checkpoint as a row, with its files by name."""
    row: dict[str, Any] = msgspec.to_builtins(state)
    return {**row, "files": {file.name: file.blob for file in state.files}}


@contextmanager
def training_bar(title: str, steps: int) -> Iterator[Watch]:
    """Show a stage's progress: a bar of its steps with their measures, and lines for groups and staleness."""
    reporter = TerminalReporter()
    with reporter.phase(title, steps) as advance:
        yield watch_progress(advance, reporter.say)
