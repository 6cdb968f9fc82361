"""`make bench-train`: tokens per CPU-second of both GRPO backends, against unmodified TRL."""

from __future__ import annotations

import platform
import statistics
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from transformers.utils.logging import disable_progress_bar

from benchmarks.datasets.workload import SIBLINGS
from benchmarks.log.server import own_server
from benchmarks.report import Target, at_least, report
from eventlog.errors import FlywheelError
from trainer.devices import Device, prepare_device, runtime
from trainer.request import GrpoConfig, Lora
from trainer.rows import read_rows
from trainer.start import StageStart

from .arms import BACKENDS, PLAIN, Work, rates
from .large import figures_of as large_figures
from .workload import SEED, freeze, make_base

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"
PAGES = {"cpu": DOCS / "train.md", "cuda": DOCS / "train-gpu.md"}
PROJECT = "train"
PASSES = {1: "one step to a batch", 2: "two steps to a batch"}
TARGET = at_least(0.95)
STALENESS = {False: "0.01", True: "0.05"}
"""Staleness bound without and with CUDA, whose bfloat16 deviates from the float32 of sampling."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Steps per training, groups per batch, and repeats per arm."""

    steps: int
    groups: int
    repeats: int


def main(
    *,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Device of the training.")] = "cpu",
    steps: Annotated[int, typer.Option(min=2, help="Steps per training.")] = 4,
    groups: Annotated[int, typer.Option(min=1, help=f"Groups of {SIBLINGS} rows per batch.")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats per arm.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="Run for about a minute, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Also write the table into the device's page.")] = False,
) -> None:
    """Train on a dataset frozen from a log on a new embedded PostgreSQL."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    effort = Effort(2, 1, 1) if quick else Effort(steps, groups, repeats)
    warnings.simplefilter("ignore")  # warnings of libraries; tests check ours
    disable_progress_bar()
    try:
        prepared = prepare_device(device, 1, SEED)
    except FlywheelError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error
    with tempfile.TemporaryDirectory(prefix="flywheel-bench-") as folder:
        figures, targets, of = measured(Path(folder), prepared, effort)
    size = f"medians of {effort.repeats} turns, {effort.steps} steps on {effort.groups * SIBLINGS} rows in each"
    report(
        "train" if device == "cpu" else "train-gpu",
        figures,
        targets,
        page=PAGES[device] if write else None,
        note=f"{_machine(prepared)}; {of}; {size}.",
    )


def measured(folder: Path, device: Device, effort: Effort) -> tuple[dict[str, float], dict[str, Target], str]:
    """The figures, their targets, and a description of the dataset."""
    base, file = make_base(folder / "bases"), folder / "rows.parquet"
    with own_server() as server, Console(stderr=True).status("drawing and freezing rows"):
        server.project(PROJECT)
        made = freeze(server.app_url, PROJECT, base, effort.steps * effort.groups, file, device.name)
    rows, start = read_rows(file, "grpo"), StageStart(base, device, Lora(), None, SEED, 32)
    figures: dict[str, float] = {}
    targets: dict[str, Target] = {}
    unit = "tokens/s" if device.is_cuda else "tokens per CPU-second"
    for passes, named in PASSES.items():
        config = GrpoConfig(
            steps=effort.steps,
            learning_rate="0.001",
            groups_per_step=effort.groups,
            passes=passes,
            staleness=STALENESS[device.is_cuda],
            rows_per_pass=effort.groups * SIBLINGS,
        )
        with Console(stderr=True).status(f"training: {named}"):
            found = rates(Work(start, rows, config), effort.repeats)
        figures |= {f"{named}, {arm}, {unit}": statistics.median(rate) for arm, rate in found.items()}
        for backend in BACKENDS:
            ratio = f"{named}, {backend} / {PLAIN}"
            figures[ratio] = statistics.median(
                mine / theirs for mine, theirs in zip(found[backend], found[PLAIN], strict=True)
            )
            targets[ratio] = TARGET
    if device.is_cuda:
        with Console(stderr=True).status("passes at a large vocabulary"):
            figures |= large_figures(folder, base)
    return figures, targets, f"dataset {made.digest[:12]} at position {made.upto}, {made.height} rows"


def _machine(device: Device) -> str:
    known = runtime(device)
    where = known["device"] if device.is_cuda else f"{platform.machine()} {known['instruction_set']}, one thread"
    return f"{where}, torch {known['torch']}, TRL {known['trl']}"


if __name__ == "__main__":
    typer.run(main)
