"""Decoders of structs are built by many threads at once, as where a server answers its first requests."""

import subprocess
import sys
from pathlib import Path

THREADS_THAT_BUILD = """
import sys
from threading import Barrier, Thread
from typing import Generic, TypeVar

import msgspec

from projections.engine.decoders import convert, decoder_of

S = TypeVar("S")


def fresh():
    class Inner(msgspec.Struct):
        a: int
        b: tuple[int, ...] = ()

    class Outer(msgspec.Struct):
        one: Inner
        more: tuple[Inner, ...]

    class Change(msgspec.Struct, Generic[S], array_like=True):
        key: str
        state: S | None

    return Outer, Change[Outer]


def read(barrier, plain, changed):
    barrier.wait()
    decoder_of(changed).decode_lines('["k",{"one":{"a":1},"more":[{"a":2}]}]' * 3)
    convert({"one": {"a": 1}, "more": [{"a": 2}]}, plain)


sys.setswitchinterval(1e-6)
for _ in range(300):
    plain, changed = fresh()
    barrier = Barrier(4)
    threads = [Thread(target=read, args=(barrier, plain, changed)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


def test_threads_that_read_a_type_for_the_first_time_at_once_read_it() -> None:
    """Without the lock the process ends with a segmentation fault in each of ten tries (msgspec 0.22)."""
    command = [sys.executable, "-c", THREADS_THAT_BUILD]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
