"""`subprocess.Popen` for our own programs, which forks them from a process that has imported them already.

A command spends 3 processor seconds on imports and a training process 6; a fork spends .1. Such a process is a real
child of whoever starts it: waiting, signals, process groups, descriptors, `/proc/PID/cmdline` and `/proc/PID/environ`
are what they are after a start from cold. What differs: all forks share one hash seed, and modules that a program
imports late are there early. Everything that is not one of `PROGRAMS`, or asks for more than a fork can give, is
started from cold. tests/forkserver.py is the other side.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PROGRAMS: Final = (
    ("-c", "from api.cli.main import main; main()"),
    ("-m", "agents.envs.serve"),
    ("-m", "trainer"),
    ("-m", "trainer.rank"),
)
TRAINING: Final = {"trainer", "trainer.rank", "train", "slow", "both"}
"""Words of programs that train themselves or start one that does."""
FIXED_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "OMP_", "MKL_", "OPENBLAS_", "CUDA_", "HF_", "TRANSFORMERS_")
READ_LATE: Final = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONBREAKPOINT"}
"""Of those, what a fork sets anew or reads when it is used, and the buffering of output, which no test looks at."""
ROOM_FOR_ARGUMENTS: Final = 16_000
ROOM_FOR_ENVIRONMENT: Final = 100_000
LARGEST_REQUEST: Final = 180_000
NO_BACKGROUND_THREADS: Final = dict.fromkeys(
    ("_RJEM_MALLOC_CONF", "JE_ARROW_MALLOC_CONF", "MALLOC_CONF"), "background_thread:false"
)
_GET_SUBREAPER, _SET_SUBREAPER = 37, 36


@dataclass(frozen=True, slots=True)
class Request:
    """What a process shall be. Its descriptors are sent along: 0, 1, 2, then those that it is passed."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    passed: Sequence[int]
    is_session: bool
    group: int

    @property
    def trains(self) -> bool:
        """Whether the process needs the libraries of training."""
        return not TRAINING.isdisjoint(self.arguments)


class Forks:
    """A process that forks others, or two: the second has the libraries of training besides."""

    def __init__(self, connection: socket.socket, environment: Mapping[str, str], *, is_whole: bool) -> None:
        """`is_whole` where the process has all libraries that it will ever have."""
        self._connections = {False: connection} | ({True: connection} if is_whole else {})
        self._environment = dict(environment)
        self._second: int | None = None
        self._lock = threading.Lock()

    def pid_of(self, request: Request, descriptors: Sequence[int]) -> int:
        """The process id of a new child of this process. Raises OSError."""
        with self._lock:
            if request.trains not in self._connections:
                self._connections[True] = self._grown()
            return _asked(self._connections[request.trains], request, descriptors)

    def can(self, environment: Mapping[str, str]) -> bool:
        """Whether a process with this environment would have been as the one that forks is: some of it counts early."""
        size = sum(len(os.fsencode(f"{name}={value}")) + 1 for name, value in environment.items())
        return _early(environment) == _early(self._environment) and size < ROOM_FOR_ENVIRONMENT

    def close(self) -> None:
        """Let the processes that fork end."""
        for each in self._connections.values():
            each.close()
        if self._second is not None:
            os.waitpid(self._second, 0)

    def _grown(self) -> socket.socket:
        """Fork the second process from the first, which spares it half of its imports."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, Path(os.devnull).open("r+b") as nothing:
            number = theirs.fileno()
            words = (sys.executable, "-m", "tests.forkserver", str(number))
            request = Request(words, {**self._environment, **NO_BACKGROUND_THREADS}, str(ROOT), [number], False, -1)
            self._second = _asked(self._connections[False], request, [nothing.fileno()] * 3 + [number])
        return ours


def _asked(connection: socket.socket, request: Request, descriptors: Sequence[int]) -> int:
    with _adopting():
        socket.send_fds(connection, [json.dumps(asdict(request)).encode()], list(descriptors))
        answer = connection.recv(64)
    if not answer.isdigit():
        raise OSError(f"no process was forked: {answer.decode() or 'the one that forks has ended'}")
    return int(answer)


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environment.items() if name.startswith(FIXED_AT_START) and name not in READ_LATE
    }


@contextmanager
def _adopting() -> Iterator[None]:
    """Orphans become children of this process: so a process becomes its child that its grandchild has forked."""
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_SET_SUBREAPER, before.value, 0, 0, 0)


Cold: Final = subprocess.Popen
_START: Final = inspect.signature(Cold._execute_child)  # type: ignore[attr-defined]
_PIPES: Final = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_UNUSUAL: Final = ("executable", "preexec_fn", "shell", "startupinfo")


class Forked(subprocess.Popen[Any]):
    """A process that is forked where that can be done, and started from cold otherwise."""

    forks: Forks | None = None

    def _execute_child(self, *given: Any) -> None:
        how = _START.bind(self, *given).arguments
        request = None if self.forks is None else _request(self.forks, how)
        if self.forks is None or request is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = [how[name] for name in _PIPES]
        standard = [own if theirs == -1 else theirs for own, theirs in enumerate((pipes[0], pipes[3], pipes[5]))]
        try:
            self.pid = self.forks.pid_of(request, [*standard, *request.passed])
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _request(forks: Forks, how: Mapping[str, Any]) -> Request | None:
    """What these arguments of `Popen` ask of a process that forks; None where only a start from cold will do."""
    arguments = [os.fsdecode(each) for each in how["args"]] if isinstance(how["args"], list | tuple) else []
    environment = {
        os.fsdecode(name): os.fsdecode(value)
        for name, value in (os.environ if how["env"] is None else how["env"]).items()
    }
    folder = Path.cwd() if how["cwd"] is None else Path(os.fsdecode(how["cwd"]))
    is_unusual = any(how[name] for name in _UNUSUAL) or not how["close_fds"]
    is_other_user = (how["gid"], how["gids"], how["uid"], how["umask"]) != (None, None, None, -1)
    if (
        arguments[:1] != [sys.executable]
        or tuple(arguments[1:3]) not in PROGRAMS
        or is_unusual
        or is_other_user
        or not forks.can(environment)
        or _has_other_code(folder)
    ):
        return None
    group = -1 if how["process_group"] is None else how["process_group"]
    request = Request(arguments, environment, str(folder), list(how["pass_fds"]), bool(how["start_new_session"]), group)
    return None if request.trains and Path("/dev/nvidia0").exists() else request  # a driver does not outlive a fork


def _has_other_code(folder: Path) -> bool:
    """Whether our programs would be other ones in this folder, which is the first place that Python looks in."""
    if not folder.is_dir():
        return True
    return not folder.samefile(ROOT) and any((folder / name).exists() for name in ("agents", "api", "trainer"))


@contextmanager
def forking() -> Iterator[None]:
    """Within this, `subprocess.Popen` forks our programs. The process that forks starts with the first of them."""
    with tempfile.TemporaryFile() as complaints:
        forks = _Late(complaints.fileno())
        use(forks)
        try:
            yield
        finally:
            use(None)
            forks.close()


def use(forks: Forks | None) -> None:
    """Let `subprocess.Popen` ask this one, or none."""
    Forked.forks = forks
    subprocess.Popen = Cold if forks is None else Forked  # type: ignore[misc]


class _Late(Forks):
    """One that starts when it is asked for the first time."""

    def __init__(self, complaints: int) -> None:
        self._complaints = complaints
        self._server: subprocess.Popen[bytes] | None = None
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._connections = {}
        self._second = None
        self._lock = threading.Lock()

    def pid_of(self, request: Request, descriptors: Sequence[int]) -> int:
        with self._lock:
            if self._server is None:
                self._start()
        return super().pid_of(request, descriptors)

    def close(self) -> None:
        super().close()
        if self._server is not None:
            self._server.wait()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            # What a child shows of itself is written over the arguments and the environment of this process.
            room = {"ROOM": "-" * ROOM_FOR_ENVIRONMENT}
            self._server = Cold(
                [sys.executable, "-m", "tests.forkserver", str(number), "-" * ROOM_FOR_ARGUMENTS],
                cwd=ROOT,
                env={**self._environment, **NO_BACKGROUND_THREADS, **room},
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
            )
        self._connections = {False: ours}
