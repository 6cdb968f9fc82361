"""Output of commands: tables and sentences for people, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eventlog.errors import BlobErased

from .progress_lines import print_progress

if TYPE_CHECKING:
    from eventlog.database import OutagePatience

    from ..house import House
    from ..reporter import Advance

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _refuse_before_first(given: str | None) -> str | None:
    if given is not None and given.isascii() and given.isdigit() and int(given) == 0:
        raise typer.BadParameter("position 0 is before the first event of the log; expected 1 or a later one")
    return given


AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="POSITION|TIME",
        callback=_refuse_before_first,
        help="Show the state at this position or time. Default: now.",
    ),
]

SHOWN: Final = 100
"""Items of a list, unless another number is asked for."""
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most this many.")]
After = Annotated[
    str | None, typer.Option("--after", metavar="PLACE", help="Continue after this place, which the page before names.")
]


def say_more(following: object | None) -> None:
    """If a list goes on, say how to see more of it; on standard error, so that JSON stays JSON."""
    if following is not None:
        told = f"There are more; continue with --after {following}, or show more at once with --limit."
        ERR.print(Text(told), soft_wrap=True)


def none_of(what: str, way_out: str, after: str | None) -> str:
    """The sentence of an empty list: there is none at all, or none after a place."""
    return f"no {what} yet; {way_out}" if after is None else f"no {what} after {after}"


def one_of(names: Sequence[str], what: str) -> Callable[[str | None], str | None]:
    """Callback of an option that refuses a value which is none of these names."""

    def refuse_others(given: str | None) -> str | None:
        if given is not None and given not in names:
            raise typer.BadParameter(f"{given!r} is no {what}; expected {', '.join(names)}")
        return given

    return refuse_others


@contextmanager
def open_project(patience: OutagePatience | None = None) -> Iterator[House]:
    """Open the house that the settings describe, and close it afterwards. With `patience`, wait for a lost database."""
    from ..house import open_house
    from ..settings import read_settings

    with closing(open_house(read_settings(), patience)) as house:
        yield house


def emit_json(data: object) -> None:
    """Print one JSON document on standard output."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    """A struct or a dataclass as plain values, anything else as text."""
    from msgspec import Struct, to_builtins

    is_record = isinstance(value, Struct) or (is_dataclass(value) and not isinstance(value, type))
    return to_builtins(value, enc_hook=str) if is_record else str(value)


@contextmanager
def erased_as_json(named: dict[str, object], *, as_json: bool) -> Iterator[None]:
    """If needed bytes were erased, print the outcome *erased* as JSON and exit with code 1."""
    try:
        yield
    except BlobErased as error:
        if not as_json:
            raise
        emit_json({**named, "outcome": "erased", "blob": error.facts["actual"], "message": str(error)})
        raise typer.Exit(1) from error


def say(text: str) -> None:
    """Print one sentence; markup is not interpreted."""
    OUT.print(Text(text), soft_wrap=True)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None, empty: str = ""
) -> None:
    """Print a table, or the sentence `empty` if there are no rows. Piped output has one line a row, however long."""
    if not rows and empty:
        say(empty)
        return
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not OUT.is_terminal:
        print_lines(columns, cells, title)
        return
    grid = Table(title=title, title_justify="left", header_style="bold", show_edge=False, pad_edge=False)
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in cells:
        grid.add_row(*map(Text, row))
    OUT.print(grid)


def print_lines(columns: Sequence[str], cells: Sequence[Sequence[str]], title: str | None) -> None:
    """Print a table as rich would without a limit of its width, in a tenth of the time."""
    rows = [tuple(columns), *(tuple(" ".join(cell.splitlines()) for cell in row) for row in cells)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = [[set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    encoding = sys.stdout.encoding or "utf-8"
    head, cross, line, bar = "┃╇━│" if encoding.lower().startswith("utf") else "|+-|"
    rule = f"{line}{cross}{line}".join(line * width for width in widths)
    printed = [*filter(None, [title]), f" {head} ".join(lines[0]), rule, *map(f" {bar} ".join, lines[1:])]
    typer.echo("\n".join(printed).encode(encoding, "replace").decode(encoding))


def print_facts(rows: Sequence[tuple[str, object]], *, title: str | None = None) -> None:
    """Print names and values, one pair per line, wrapped to the terminal."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), Text("" if value is None else str(value)))
    if title is not None:
        say(title)
    (OUT if OUT.is_terminal else Console(highlight=False, width=160)).print(grid)


def print_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str) -> None:
    """Print these columns of rows as a table, or whole rows as JSON."""
    if as_json:
        emit_json(rows)
    else:
        table(columns, [[row.get(column) for column in columns] for row in rows], empty=empty)


class TerminalReporter:
    """Shows phases as progress bars (lines without a terminal) and news as sentences, on standard error."""

    def phase(self, title: str, total: int) -> AbstractContextManager[Advance]:
        """See Reporter.phase."""
        return bar(title, total)

    def say(self, text: str) -> None:
        """See Reporter.say."""
        ERR.print(Text(f"  {text}"), soft_wrap=True)


@contextmanager
def bar(title: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A progress bar of `total` steps (None: unknown), with an optional `note`; its function advances it by some steps.

    Without a terminal, progress is printed as lines.
    """
    with _progress(title, total) as update:
        yield lambda steps=1, note="": update(advance=steps, note=note)


@contextmanager
def gauge(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar whose function sets how many steps are done; lines without a terminal."""
    with _progress(title, total) as update:
        yield lambda reached: update(completed=reached, total=max(total, reached))


@contextmanager
def _progress(title: str, total: int | None) -> Iterator[Callable[..., None]]:
    if not ERR.is_terminal:
        with print_progress(title, total, print_line) as update:
            yield update
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from .progress_notes import NotedProgress

    counting = MofNCompleteColumn() if total is not None else TextColumn("{task.completed:,}")
    columns = (TextColumn("{task.description}"), BarColumn(), counting, TimeElapsedColumn())
    with NotedProgress(*columns, console=ERR) as progress:
        yield partial(progress.update, progress.add_task(title, total=total, note=""))


@contextmanager
def spinner(title: str) -> Iterator[None]:
    """A spinner with the elapsed time, for work without steps; without a terminal, one line at the end."""
    if not ERR.is_terminal:
        with print_progress(title, None, print_line):
            yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), SpinnerColumn(finished_text=""), TimeElapsedColumn())
    with Progress(*columns, console=ERR) as progress:
        task = progress.add_task(title, total=1)
        yield
        progress.advance(task)


def print_line(text: str) -> None:
    """Print one line on standard error."""
    ERR.print(Text(text), soft_wrap=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a change with large effects, only on a terminal. Aborts on no."""
    if not yes and ERR.is_terminal and not typer.confirm(question, err=True):
        raise typer.Abort


def confirm_always(question: str, *, yes: bool) -> None:
    """Ask before a change that a script must say it means, also without a terminal. Aborts on no, and on no answer."""
    if yes:
        return
    if not ERR.is_terminal:
        ERR.print("The answer is read from standard input; --yes gives it.")
    if not typer.confirm(question, err=True):
        raise typer.Abort
