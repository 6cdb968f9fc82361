"""`flywheel checkpoint`: trained weights, their lineage, and the forms they are served in."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ..errors import Unknown
from ..queries.checkpoints import (
    CHECKPOINTS_LISTED,
    DIGEST,
    CheckpointAnswer,
    CheckpointPage,
    LineageAnswer,
    LineageStep,
    Touched,
    find_weights,
    page_checkpoints,
    show_checkpoint,
)
from ..queries.trainings import show_training
from ..training.lineage import checkpoints_touched, lineage
from ..training.publish import export_to, publish
from ..training.verify import retrain
from ..training.weights import base_of
from .output import (
    ERR,
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    emit_json,
    erased_as_json,
    none_of,
    open_project,
    print_facts,
    print_rows,
    say,
    say_more,
    spinner,
)
from .plots import PlotFile, draw_training
from .sources import LogSource, Server, Source, open_source, refuse_options
from .train import BaseOf, row_of_checkpoint, training_bar

app = typer.Typer(help="Checkpoints: list, show, lineage, export, publish, verify.", no_args_is_help=True)
Named = Annotated[str, typer.Argument(help="The checkpoint's digest, or at least its first eight characters.")]


class As(StrEnum):
    """The form in which a checkpoint is written."""

    PEFT = "peft"
    GGUF_ADAPTER = "gguf-adapter"
    GGUF_F32 = "gguf-f32"
    GGUF_F16 = "gguf-f16"
    GGUF_Q8_0 = "gguf-q8_0"


FormOf = Annotated[As, typer.Option("--form", help="The form to write.")]


@app.command("list")
def list_(
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List checkpoints. Those of one page come in the order in which they were saved; pages are in order of digest."""
    with open_source(server, as_of) as source:
        found, following = source.pages(
            CheckpointPage,
            "checkpoints",
            "/v1/checkpoints",
            lambda _house, views: page_checkpoints(views, after=after, limit=limit),
            after,
            limit,
        )
    columns = ("checkpoint", "algorithm", "parent", "base", "dataset", "since")
    rows = msgspec.to_builtins(sorted(found, key=lambda state: state.since))
    empty = none_of("checkpoints", "`flywheel train` makes one", after)
    print_rows(rows, columns, as_json=as_json, empty=empty)
    say_more(following)


@app.command()
def show(
    checkpoint: Named,
    as_of: AsOf = None,
    server: Server = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a checkpoint: its origin, how it was trained, its files, and where it was published.

    --plot draws the curves of its training.
    """
    refuse_options(server, {"--plot": plot}, "it is drawn where the log is")
    with open_source(server, as_of) as source:
        found = _find_in_source(source, checkpoint)
        if plot is not None and isinstance(source, LogSource):
            stage = show_training(source.house.store, source.views, found.checkpoint.training)
            draw_training(stage.training.training, stage.curves, plot)
            ERR.print(f"drawn: {plot}", markup=False, soft_wrap=True)
    row = {**row_of_checkpoint(found.checkpoint), "stage": msgspec.to_builtins(found.training)}
    emit_json(row) if as_json else print_facts(list(row.items()))


@app.command("lineage")
def lineage_(
    checkpoint: Annotated[str | None, typer.Argument(help="The checkpoint's digest, or the start of it.")] = None,
    *,
    run: Annotated[str | None, typer.Option(help="Show every checkpoint that this run contributed to instead.")] = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Trace a checkpoint to its dataset, groups, runs and events, or a run to every checkpoint it contributed to."""
    if (checkpoint is None) == (run is None):
        raise typer.BadParameter("expected either a checkpoint or --run, not both")
    refuse_options(server, {"--run": run}, "the datasets that a run is in are made again where the log is")
    with open_source(server, as_of) as source, spinner("making the rows"):
        if run is not None and isinstance(source, LogSource):
            found: LineageAnswer | Touched = checkpoints_touched(source.house, source.views, run)
        else:
            digest = _find_in_source(source, str(checkpoint)).checkpoint.checkpoint
            with erased_as_json({"checkpoint": digest}, as_json=as_json):
                found = source.read(
                    LineageAnswer,
                    f"/v1/checkpoints/{digest}/lineage",
                    lambda house, views: lineage(house, views, digest),
                )
    plain = msgspec.to_builtins(found)
    if as_json:
        emit_json(plain)
    elif isinstance(found, LineageAnswer):
        for step in found.lineage:
            _say_step(step)
    else:
        print_facts([(name, ", ".join(value) if isinstance(value, list) else value) for name, value in plain.items()])


def _find_in_source(source: Source, name: str) -> CheckpointAnswer:
    """A checkpoint and its stage. Raises Unknown."""
    if not DIGEST.fullmatch(name):
        raise Unknown(what="checkpoint", actual=name, way_out=CHECKPOINTS_LISTED)
    path = f"/v1/checkpoints/{name}"
    return source.read(CheckpointAnswer, path, lambda _house, views: show_checkpoint(views, name))


def _say_step(step: LineageStep) -> None:
    state, runs = step.checkpoint, [run for group in step.groups.values() for run in group]
    say(f"checkpoint {state.checkpoint}: {state.algorithm}, saved at {state.since}")
    say(f"  base {state.base}" + ("" if state.parent is None else f", parent {state.parent}"))
    say(f"  dataset {state.dataset}: {step.dataset.rows} rows up to position {step.dataset.upto}")
    say(f"  {len(step.groups)} groups, {len(runs)} runs")
    for group, members in step.groups.items():
        told = ", ".join(f"{run.run} ({run.first}-{run.last})" for run in members)
        say(f"    {group}: {told}")


@app.command()
def export(
    checkpoint: Named,
    out: Annotated[Path, typer.Argument(help="Where to write: a folder for peft, otherwise a file.")],
    *,
    form: FormOf = As.PEFT,
    base: BaseOf = None,
) -> None:
    """Write a checkpoint for a server: as a PEFT folder, a GGUF adapter, or merged with its base as GGUF."""
    with open_project() as house:
        state = find_weights(house.views(), checkpoint)
        found = None if state.is_base else base_of(house, base, state.base)
        with spinner(f"writing {form.value}"):
            export_to(house, state, found, form.value, out)
    say(f"{state.checkpoint} is in {out}")


@app.command("publish")
def publish_(
    checkpoint: Named,
    place: Annotated[str, typer.Argument(help="The model store: a folder, or s3://, gs:// or file://.")],
    *,
    form: FormOf = As.PEFT,
    base: BaseOf = None,
    as_json: AsJson = False,
) -> None:
    """Copy a checkpoint to a model store that executors mount read-only; of a base model the folder, or a GGUF form."""
    with open_project() as house:
        state = find_weights(house.views(), checkpoint)
        found = None if state.is_base else base_of(house, base, state.base)
        with spinner("publishing"):
            event = publish(house, state, found, form.value, place, "operator")
    emit_json(event.model_dump()) if as_json else say(f"{event.checkpoint} is at {event.place}")


@app.command()
def verify(checkpoint: Named, base: BaseOf = None, as_json: AsJson = False) -> None:
    """Train a checkpoint again and compare digests: equal, different or erased. Only equal exits with code 0.

    Erased means that rows need bytes whose subject was erased.
    """
    with open_project() as house, erased_as_json({"checkpoint": checkpoint}, as_json=as_json):
        shown = show_checkpoint(house.views(), checkpoint)
        state, steps = shown.checkpoint, 0 if shown.training is None else shown.training.of
        with training_bar("training again", steps) as watch:
            found = retrain(house, state, base_of(house, base, state.base), watch)
    outcome = "equal" if found.is_equal else "different"
    told = {"checkpoint": found.checkpoint, "outcome": outcome, "actual": found.actual, "differing": found.differing}
    differing = f"; these differ: {', '.join(found.differing)}" if found.differing else ""
    emit_json(told) if as_json else say(f"{outcome}: training again gives {found.actual}{differing}")
    if not found.is_equal:
        raise typer.Exit(1)
