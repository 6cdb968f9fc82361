"""Progress as lines of text, for output that is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread
from time import monotonic
from typing import Final

PAUSE_S: Final = 5.0
"""Shortest time between two lines of one phase."""


@dataclass
class _Counted:
    """Steps of a phase. `total` is None if it is unknown."""

    title: str
    total: int | None
    began: float
    told: float
    done: int = 0
    note: str = ""

    def line(self) -> str:
        """The phase, its steps and its time so far as one line."""
        steps = f" {self.done:,}" if self.total is None else f" {self.done}/{self.total}"
        shown = "" if self.total is None and not self.done else steps
        return f"{self.title}{shown} {timedelta(seconds=int(monotonic() - self.began))}{self.note and f'  {self.note}'}"


@contextmanager
def say_while(title: str, say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Say every PAUSE_S seconds how long a block has taken. The function sets a note on how far it is."""
    counted, ended = _Counted(title, None, monotonic(), monotonic()), Event()

    def tell() -> None:
        while not ended.wait(PAUSE_S):
            say(counted.line())

    def note(text: str) -> None:
        counted.note = text

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield note
    finally:
        ended.set()
        teller.join()


@contextmanager
def print_progress(title: str, total: int | None, say: Callable[[str], None]) -> Iterator[Callable[..., None]]:
    """Say a line every PAUSE_S seconds at most while steps are counted, and one at the end.

    The function adds to the steps (`advance`) or sets them (`completed`), sets the `total`, and sets the `note`.
    """
    counted = _Counted(title, total, monotonic(), monotonic())

    def update(*, advance: int = 0, completed: int | None = None, total: int | None = None, note: str = "") -> None:
        counted.done = counted.done + advance if completed is None else completed
        counted.total, counted.note = counted.total if total is None else total, note
        if monotonic() - counted.told >= PAUSE_S and counted.done != counted.total:
            counted.told = monotonic()
            say(counted.line())

    yield update
    say(counted.line())
