"""Reports of progress and messages by the rooms: to a terminal, a table of rounds, or nowhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Advance(Protocol):
    """Counts one step of a phase. A `note` about its result is shown until the next step."""

    def __call__(self, *, note: str = "") -> None:
        """Count one step."""
        ...


class Reporter(Protocol):
    """Receiver of progress and messages."""

    def phase(self, title: str, total: int) -> AbstractContextManager[Advance]:
        """Begin a phase of `total` steps. The returned function counts one step."""
        ...

    def say(self, text: str) -> None:
        """Show one line about an event."""
        ...
