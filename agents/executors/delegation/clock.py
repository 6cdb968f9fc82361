"""The clock of a running loop: time is charged while a step takes long, so that a kill loses little of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from eventlog.errors import FlywheelError

from .journal import LoopJournal

CHARGE_EVERY_S: Final = 20.0
"""A kill loses at most so much of the wall time. A step that is shorter charges its time when it is settled."""


@contextmanager
def charge_meanwhile(journal: LoopJournal, every_s: float = CHARGE_EVERY_S) -> Iterator[None]:
    """Start the clock of a loop, and charge its wall time every so often until the end of the block."""
    journal.start_clock()
    ended = threading.Event()

    def charge() -> None:
        while not ended.wait(every_s):
            try:
                journal.charge_time()
            except FlywheelError:
                return  # the loop itself meets the same failure at its next append, and reports it

    thread = threading.Thread(target=charge, name=f"clock of {journal.loop}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
