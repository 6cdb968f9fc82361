"""The program inside the sandbox: limit this process, then run one tool and write what it returned as JSON.

It is run as a file by a bare interpreter, so it imports the standard library only. The limits are set before the tool's
code is compiled: memory, processor time, no files that can be written, and a seccomp filter that refuses processes,
sockets, and opening a file for writing.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import platform
import resource
import struct
import sys
from typing import Any

NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
EPERM, ENOSYS = 1, 38
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
X32 = 0x40000000


def read_numbers(text: str) -> tuple[int, ...]:
    """The numbers in a text of numbers and ranges."""
    ranges = [(part.partition("-")[0], part.partition("-")[2]) for part in text.split()]
    return tuple(number for low, high in ranges for number in range(int(low), int(high or low) + 1))


REFUSED = {
    "x86_64": (
        0xC000003E,
        read_numbers(
            # sockets, processes, kill, ptrace, mounts, modules, keys, namespaces, bpf, io_uring
            "41-50 53 56-59 62 101 133 155 161 165 166 175 200 234 248-250 259 272 288 297-299 303 304 307 308 310 311 "
            "313 319 321-323 424 425 434 438 "
            # shared memory, which no limit counts; fchmodat2, setxattrat, removexattrat
            "29-31 452 463 466 "
            # truncate, rename, mkdir, creat, link, unlink, chmod, chown, xattr, utime
            "76 77 82-88 90-94 132 188-190 235 258 260 261 263-266 268 280 285 316"
        ),
        ((2, 1), (257, 2)),
    ),
    "aarch64": (
        0xC00000B7,
        read_numbers(
            "198-212 220 221 129-131 117 39-41 51 104-106 217-219 242 243 269 97 240 241 264 265 268 270 271 273 "
            "276 279-282 424 425 434 438 5-7 33-38 45-47 52-55 88 194-197 452 463 466"
        ),
        ((56, 2),),
    ),
}
"""By machine: audit name, numbers of refused system calls, and those that open, with their argument of flags."""


def close_filter() -> bytes:
    """The seccomp program of this machine. Raises KeyError for a machine that is not listed."""
    audit, numbers, opening = REFUSED[platform.machine()]

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("HBBI", code, yes, no, value)

    program = [step(LOAD, 4), step(EQUAL, audit, 1, 0), step(RETURN, KILL), step(LOAD, 0)]
    program += [step(AT_LEAST, X32, 0, 1), step(RETURN, KILL)]
    for number in numbers:
        program += [step(EQUAL, number, 0, 1), step(RETURN, REFUSE | EPERM)]
    for number in (435, 437):  # clone3, openat2: their flags lie in memory
        program += [step(EQUAL, number, 0, 1), step(RETURN, REFUSE | ENOSYS)]
    for number, argument in opening:
        program += [step(EQUAL, number, 0, 4), step(LOAD, 16 + 8 * argument)]
        program += [step(ANY_BIT, WRITING, 0, 1), step(RETURN, REFUSE | EPERM), step(RETURN, ALLOW)]
    return b"".join([*program, step(RETURN, ALLOW)])


def limit_process(memory_bytes: int, cpu_s: int) -> None:
    """Limit this process for good. Raises OSError if the kernel refuses the filter."""
    for what, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 32),
    ):
        resource.setrlimit(what, (most, most))
    program = close_filter()
    held = ctypes.create_string_buffer(program, len(program))
    size = len(program) // 8
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", size, ctypes.addressof(held)))
    system = ctypes.CDLL(None, use_errno=True)
    for option, value, address in ((NO_NEW_PRIVS, 1, 0), (SET_SECCOMP, FILTER, ctypes.addressof(described))):
        if system.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(address), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the kernel refused the filter")


def call_handler(code: str, arguments: dict[str, Any]) -> object:
    """Result of the tool's handler for these arguments. Raises whatever it raises."""
    space: dict[str, Any] = {"__name__": "tool"}
    exec(compile(code, "tool.py", "exec"), space)  # noqa: S102 this is the sandbox
    handler = space["handler"]
    given = {"_secrets": {}, "_workspace_dir": "", "_output_dir": ""}
    named = set(inspect.signature(handler).parameters)
    found = handler(**{name: value for name, value in given.items() if name in named}, **arguments)
    if not inspect.iscoroutine(found):
        return found
    try:
        while True:
            found.send(None)
    except StopIteration as ended:
        return ended.value


def main() -> None:
    """Read a call from standard input, and write what came of it to where standard output was."""
    asked = json.loads(sys.stdin.buffer.read())
    out = os.fdopen(os.dup(1), "wb")
    sys.setrecursionlimit(500)
    limit_process(asked["memory_bytes"], asked["cpu_s"])
    try:
        value = call_handler(asked["code"], asked["arguments"])
        if isinstance(value, dict):
            answer = json.dumps({"value": value}, allow_nan=False)
        else:
            answer = json.dumps({"error": f"the handler returned {type(value).__name__}; expected a dict"})
    except BaseException as problem:  # noqa: BLE001 whatever a tool raises
        answer = json.dumps({"error": f"{type(problem).__name__}: {str(problem)[:500]}"})
    out.write(b"\n" + answer.encode() + b"\n")
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
