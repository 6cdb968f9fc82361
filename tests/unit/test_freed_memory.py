"""Memory that was freed goes back to the operating system, while a service runs."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from api.cli import freed_memory, serve
from api.cli.freed_memory import give_back_memory, give_back_until, share_memory_pools

_MIB = 2**20


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone keeps freed memory")
def test_memory_between_what_is_still_used_is_given_back() -> None:
    pieces = [bytearray(range(256)) * 4 for _ in range(64 * 1024)]
    kept = pieces[::64]
    del pieces
    before = resident()
    assert give_back_memory()
    assert before - resident() > 32 * _MIB
    assert len(kept) == 1024


POOLS_OF_THREADS = """
import ctypes, sys, threading
from pathlib import Path
from api.cli.freed_memory import share_memory_pools

assert sys.argv[1] == "each" or share_memory_pools()
library = ctypes.CDLL(None)
library.malloc.restype = library.fopen.restype = ctypes.c_void_p
at_once = threading.Barrier(8)

def hold():
    library.malloc(ctypes.c_size_t(50_000))
    at_once.wait()

threads = [threading.Thread(target=hold) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
file = ctypes.c_void_p(library.fopen(sys.argv[2].encode(), b"w"))
library.malloc_info(0, file)
library.fclose(file)
print(Path(sys.argv[2]).read_text().count("<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has a pool for each thread")
def test_threads_share_two_pools(tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if name not in {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"}}
    words, file = (sys.executable, "-c", POOLS_OF_THREADS), str(tmp_path / "pools")
    pools = [int(subprocess.check_output((*words, whose, file), env=plain)) for whose in ("each", "shared")]
    assert pools[0] > 2
    assert pools[1] == 2


def test_a_library_without_the_function_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not give_back_memory()
    assert not share_memory_pools()
    give_back_until(threading.Event(), every_s=0)


def test_memory_is_given_back_again_and_again_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, times = threading.Event(), iter(range(3))

    def give_back() -> bool:
        if next(times) == 2:
            stop.set()
        return True

    monkeypatch.setattr(freed_memory, "give_back_memory", give_back)
    give_back_until(stop, every_s=0)
    assert list(times) == []


def test_a_service_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()

    def work(stop: threading.Event) -> None:
        began.set()
        stop.wait()

    monkeypatch.setattr(serve, "give_back_until", work)
    monkeypatch.setattr(serve, "deliver_until", lambda _, stop: stop.wait())
    with serve.work_beside(cast("Any", None)):
        assert began.wait(60)
    assert not [each for each in threading.enumerate() if each.name == "freed memory"]
