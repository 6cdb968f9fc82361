"""The process that forks our programs for tests: `python -m tests.forkserver DESCRIPTOR`. tests/forks.py asks it.

It has one thread and imports what the programs import. A request comes with descriptors on a socket; the answer is the
process id of a process that it forked by way of another one, which ended at once: so whoever asked, and adopts orphans
meanwhile, is the parent. Each process forked so first forks one of these for itself, while it still has one thread,
and asks it when it starts a program of ours in turn.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import signal
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from . import forks

MOST_DESCRIPTORS: Final = 64
IMPORTED: Final = ("eventlog", "projections", "agents", "gate", "trainer", "api")
IMPORTED_LATE: Final = (
    "anyio.streams.tls",
    "httpcore2",
    "procrastinate.builtin_tasks",
    "procrastinate.worker",
    "truststore",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.h11_impl",
)
"""What libraries import where they are used. A list that lacks one costs time, and nothing else."""
IMPORTED_TO_TRAIN: Final = ("torch", "transformers", "peft", "trl")
IDLE_THREADS: Final = {"polars-ooc-clea"}
"""Polars starts it, on import, to remove what it spills. It waits, and holds nothing that a fork would need."""
ABOVE: Final = 100
_SENT_TO_ALL: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATHS: Final = os.environ.get("PYTHONPATH", "").split(os.pathsep)
_LIBRARIES: Final = [each for each in sys.path[1:] if each not in _PATHS]


def main() -> NoReturn:
    """Fork what is asked for. A process that is forked comes out of this loop, and runs its program."""
    environment = dict(os.environ)
    connection = socket.socket(fileno=int(sys.argv[1]))
    _import_programs()
    while True:
        request, descriptors, answer = _next_child(connection)
        _become(request, descriptors)
        os.write(answer, str(os.getpid()).encode())
        os.close(answer)
        if request.arguments[2] == __spec__.name:
            connection = socket.socket(fileno=int(request.arguments[3]))
            for name in IMPORTED_TO_TRAIN:
                importlib.import_module(name)
            continue
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            ours.close()
            connection = theirs
            _stand_by(request.passed)
            continue
        theirs.close()
        forks.use(forks.Forks(ours, environment, is_whole=True))
        _run(request.arguments)


def _import_programs() -> None:
    """Import all modules of ours but those that run when they are imported."""
    for root in IMPORTED:
        package = importlib.import_module(root)
        for module in pkgutil.walk_packages(package.__path__, f"{root}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)
    for name in IMPORTED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _next_child(connection: socket.socket) -> tuple[forks.Request, list[int], int]:
    """Fork a process for each request. In such a process: its request, its descriptors, and where it says its id."""
    gc.collect()
    gc.freeze()
    _ignore_what_is_sent_to_all()
    names = [(each / "comm").read_text().strip() for each in Path("/proc/self/task").iterdir()]
    names.remove(Path("/proc/self/comm").read_text().strip())
    busy = [name for name in names if name not in IDLE_THREADS]
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, forks.LARGEST_REQUEST, MOST_DESCRIPTORS)
        if not message:
            os._exit(0)
        if busy:
            connection.send(f"threads run in the process that forks: {busy}".encode())
            continue
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)
            os.close(reading)
            connection.close()
            return forks.Request(**json.loads(message)), descriptors, writing
        os.close(writing)
        os.waitpid(between, 0)
        connection.send(os.read(reading, 64) or b"it ended at once")
        for each in (reading, *descriptors):
            os.close(each)


def _become(request: forks.Request, descriptors: Sequence[int]) -> None:
    """Be a process as one that was started from cold would be, before it runs a line of its own."""
    _place(descriptors, [0, 1, 2, *request.passed])
    if request.is_session:
        os.setsid()
    if request.group >= 0:
        os.setpgid(0, request.group)
    for each in _SENT_TO_ALL:
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    _show(request.arguments, [f"{name}={value}" for name, value in request.environment.items()])
    time.tzset()
    first = "" if request.arguments[1] == "-c" else request.folder
    paths = [each for each in request.environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [first, *paths, *_LIBRARIES]
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _place(sources: Sequence[int], targets: Sequence[int]) -> None:
    """Give descriptors their numbers. They are moved away first, since one may have the number that another gets."""
    above = [fcntl.fcntl(each, fcntl.F_DUPFD, ABOVE) for each in sources]
    for each in sources:
        os.close(each)
    for source, target in zip(above, targets, strict=True):
        os.dup2(source, target, inheritable=True)
        os.close(source)


def _show(arguments: Sequence[str], environment: Sequence[str]) -> None:
    """What /proc says of this process: the kernel reads it from where the arguments of the first program lay."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    for begin, end, words in ((45, 46, arguments), (47, 48, environment)):
        place, room = int(fields[begin]), int(fields[end]) - int(fields[begin])
        text = b"".join(os.fsencode(word) + b"\0" for word in words)[: room - 1]
        ctypes.memset(place, 0, room)
        ctypes.memmove(place, text, len(text))


def _ignore_what_is_sent_to_all() -> None:
    """Whoever is meant by such a signal ends, and this process ends with it."""
    for each in _SENT_TO_ALL:
        signal.signal(each, signal.SIG_IGN)


def _stand_by(passed: Sequence[int]) -> None:
    """Be a process that forks for its parent: with nothing of its parent's that anybody waits for the end of."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(nothing, each)
    for each in (nothing, *passed):
        os.close(each)
    _show([f"forks for {os.getppid()}"], [])


def _run(arguments: Sequence[str]) -> NoReturn:
    """Run a program to its end as Python does, and end without taking modules apart, which costs more than it did."""
    code = 1
    try:
        code = _exit_code(arguments)
        threading._shutdown()  # type: ignore[attr-defined]  # as Python itself ends
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    except BaseException:  # noqa: BLE001 (nothing of the process that forks may run in here)
        traceback.print_exc()
    finally:
        os._exit(code)


def _exit_code(arguments: Sequence[str]) -> int:
    _, option, program, *words = arguments
    try:
        if option == "-c":
            sys.argv = [option, *words]
            sys.modules["__main__"] = types.ModuleType("__main__")
            exec(program, vars(sys.modules["__main__"]))  # noqa: S102 (one of our own programs)
        else:
            sys.argv = [program, *words]
            sys.modules.pop(program, None) if program.count(".") else None
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        sys.stderr.write(f"{end.code}\n")
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 (as Python ends a program)
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
