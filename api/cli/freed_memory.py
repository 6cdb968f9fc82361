"""Give freed memory back to the operating system. glibc keeps what large answers leave free, once for each thread."""

from __future__ import annotations

import ctypes
from threading import Event

EVERY_S = 60.0


def give_back_memory() -> bool:
    """Give back what was freed. Returns False where the C library has no `malloc_trim` (all but glibc)."""
    try:
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
    except (AttributeError, OSError, TypeError):  # no such function, no such library, no library by that name
        return False
    return True


def give_back_until(stop: Event, every_s: float = EVERY_S) -> None:
    """Give freed memory back every `every_s` seconds until `stop` is set. Returns early where that is not possible."""
    while not stop.wait(every_s) and give_back_memory():
        pass
