"""Live view of a course on the terminal: a table of its rounds above the progress bars of the running phases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from gate.figures import dollars

from ..controllers.rounds import FastRound, SiteStatus
from ..reporter import Advance
from .output import ERR, TerminalReporter

_COLUMNS = ("round", "memory", "runs", "passed, no trial", "proposed", "cost", "main failures")
_MOST_BARS = 6


class RoundsReporter(TerminalReporter):
    """Reporter that shows the rounds live on a terminal. Without one, each phase and each message is a line."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=ERR)
        self._table: Table | None = None
        self._live: Live | None = None

    @contextmanager
    def show_live(self) -> Iterator[None]:
        """Show the view on the terminal until the block ends."""
        if not ERR.is_terminal:
            yield
            return
        with Live(self._view(), console=ERR, refresh_per_second=4) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Advance]:
        """See Reporter.phase."""
        if self._live is None:
            with super().phase(title, total) as advance:
                yield advance
            return
        task = self._progress.add_task(title, total=total)
        for old in self._progress.task_ids[:-_MOST_BARS]:
            self._progress.remove_task(old)
        self._refresh()
        yield lambda **_: self._progress.advance(task)

    def watch(self, rounds: tuple[FastRound, ...], status: SiteStatus) -> None:
        """See Controller.watch."""
        self._table = table_of(rounds, status)
        self._refresh()

    def _view(self) -> Group:
        return Group(*([] if self._table is None else [self._table]), self._progress)

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._view())


def table_of(rounds: tuple[FastRound, ...], status: SiteStatus) -> Table:
    """The rounds as a table, with pieces of memory and verdicts as its caption."""
    verdicts = ", ".join(f"{name} {decision}" for name, decision in status.verdicts) or "no verdict yet"
    caption = f"memory: {status.on_trial} on trial, {status.promoted} promoted; gate: {verdicts}"
    grid = Table(caption=caption, caption_justify="left", header_style="bold", show_edge=False, pad_edge=False)
    for column in _COLUMNS:
        grid.add_column(column, overflow="fold")
    for each in rounds:
        cells = (
            f"{each.number} {each.sweep}",
            each.artifact,
            f"{each.ended} of {each.runs}",
            f"{each.plain_passed} of {each.plain}",
            each.proposed,
            dollars(each.cost),
            "; ".join(each.failing),
        )
        grid.add_row(*(Text(str(cell)) for cell in cells))
    return grid
