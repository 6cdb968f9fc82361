"""Live view of a delegation loop: iteration, decision, confidence trend, budget bars, stall signal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agents.delegation.budget import NAMES, limits_of
from agents.delegation.summary import in_words
from agents.executors.delegation.journal import LoopJournal

from .output import ERR, TerminalReporter

TREND: Final = 6
_WIDTH: Final = 20


class LoopReporter(TerminalReporter):
    """Shows a loop live on a terminal. Without one, each decision and each end of an iteration is a line."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._said = 0

    @contextmanager
    def show_live(self) -> Iterator[None]:
        """Show the view on the terminal until the block ends."""
        if not ERR.is_terminal:
            yield
            return
        with Live(Text(""), console=ERR, refresh_per_second=4) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def watch(self, journal: LoopJournal) -> None:
        """See DelegationLoop.progress."""
        if self._live is not None:
            self._live.update(loop_view(journal))
            return
        line = loop_line(journal)
        key = hash(line)
        if key != self._said:
            self._said = key
            self.say(line)


def loop_line(journal: LoopJournal) -> str:
    """The loop in one line, such as `loop-1 iteration 3: delegate, confidence 0.60, ok`."""
    state = journal.state
    if not state.decisions:
        return f"{state.loop}: opened"
    last = state.decisions[-1]
    confidence = f", confidence {in_words(state.history[-1].confidence)}" if state.history else ""
    workers = f" ({', '.join(state.running)})" if state.running else ""
    refusal = f", not followed: {last.refusal}" if last.refusal else ""
    signal = f", {journal.stall.signal}" if journal.stall.signal else ""
    return f"{state.loop} iteration {state.iteration}: {last.kind}{workers}{confidence}{signal}{refusal}"


def loop_view(journal: LoopJournal) -> Group:
    """The loop as a few lines and a bar for each dimension of its budget."""
    state = journal.state
    trend = " → ".join(in_words(each.confidence) for each in state.history[-TREND:]) or "none yet"
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in (
        ("loop", loop_line(journal)),
        ("confidence", trend),
        ("stall", f"{journal.stall.signal or 'ok'}, {journal.stall.warnings} warnings in this window"),
        ("strategy", state.strategy or "none"),
        ("skills, tools", f"{len(journal.skills.skills)}, {len(journal.tools.tools)}"),
        *budget_rows(journal),
    ):
        facts.add_row(name, Text(value))
    return Group(facts)


def budget_rows(journal: LoopJournal) -> list[tuple[str, str]]:
    """A bar for each dimension of a loop's budget: what is used, reserved included, of its limit."""
    used, most = journal.budget.spent_and_reserved, limits_of(journal.state.loop_config().budget)
    rows = []
    for dimension in NAMES:
        amount, limit = getattr(used, dimension), getattr(most, dimension)
        full = min(_WIDTH, _WIDTH * amount // limit) if limit else _WIDTH
        scale = 1_000_000 if dimension == "wall" else 1
        unit = " s" if dimension == "wall" else ""
        bar = f"{'█' * full}{'·' * (_WIDTH - full)}"
        rows.append((dimension.replace("_", " "), f"{bar} {amount // scale:,} of {limit // scale:,}{unit}"))
    return rows
