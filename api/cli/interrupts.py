"""Ctrl-C: it is answered at once, even where the command only stops after the step in progress."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread, current_thread, main_thread
from typing import NoReturn

INTERRUPTED = 130
"""Exit code of an interrupted command."""

SENTENCE = (
    "interrupted; what is in progress ends first, Ctrl-C again ends it at once. "
    "Run the same command again to resume from the log"
)
_PATIENCE_S = 1.0
_CURSOR_SHOWN = b"\x1b[?25h"


def watch_interrupts(say: Callable[[str], None]) -> Callable[[], object]:
    """Say SENTENCE at the first Ctrl-C, and end the process at the second, whatever the main thread is doing.

    The returned function waits until the sentence was said, a second at most: call it before an interrupted process
    ends.
    A thread reads the signals, because the main thread runs no handler while it is inside a library's own code. Ending
    at once is safe: whoever resumes finds a log as after `kill -9`. Only when Python takes itself down, after all
    functions that were registered for the end, is Ctrl-C ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return _wait_for_nothing
    said = Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGURG, _wake)
    # Run last of all: when Python takes itself down, it gives a signal that is not ignored its first meaning, death.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    Thread(target=_answer, args=(reading, say, said), name="interrupts", daemon=True).start()
    return partial(said.wait, _PATIENCE_S)


def leave_to_watch() -> None:
    """Raise no KeyboardInterrupt any more, once a command has ended: what ends the process is the second Ctrl-C alone.

    Raised outside a command, it would end the process as a signal does, with a traceback and another exit code.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _wake)


def is_interrupt(error: BaseException | None) -> bool:
    """True if an error came of Ctrl-C: while it imports a module, Python raises others in its place."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _wake(_number: int, _frame: object) -> None:
    """Do nothing but end a call in which the main thread waits, so that it handles what another thread got."""


def _wait_for_nothing() -> None:
    """Wait for nothing: no sentence will be said."""


@contextmanager
def leave_to_server() -> Iterator[None]:
    """Run a server that handles SIGINT itself. When it has shut down it raises the signal again, which is ignored."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _answer(reading: int, say: Callable[[str], None], said: Event) -> None:
    is_first = True
    while number := os.read(reading, 1):
        if number[0] != signal.SIGINT:
            continue
        if not is_first:
            _end_now()
        is_first = False
        say(SENTENCE)
        said.set()
        if (main := main_thread().ident) is not None:
            signal.pthread_kill(main, signal.SIGURG)


def _end_now() -> NoReturn:
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _CURSOR_SHOWN)
    os._exit(INTERRUPTED)
