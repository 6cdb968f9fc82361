"""Modules that a tool may not import, and what to use instead (NC1 to NC3). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from eventlog.events import Capability

ALWAYS: Final = frozenset(
    [
        "os",
        "subprocess",
        "sys",
        "ctypes",
        "_ctypes",
        "_posixsubprocess",
        "importlib",
        "signal",
        "multiprocessing",
        "posix",
        "pty",
        "fcntl",
        "resource",
        "builtins",
        "gc",
        "inspect",
        "code",
        "codeop",
        "runpy",
        "pickle",
        "marshal",
        "threading",
        "_thread",
        "concurrent",
        "asyncio",
        "site",
        "sysconfig",
        "pkgutil",
        "zipimport",
        "nt",
        "mmap",
    ]
)
"""Denied whatever a namespace may do (NC3)."""

UNLOCKED: Final[Mapping[Capability, frozenset[str]]] = {
    "network": frozenset(["socket", "ssl", "http", "urllib", "requests", "httpx", "httpx2", "ftplib", "smtplib"]),
    "filesystem": frozenset(["pathlib", "glob", "shutil", "tempfile", "io", "fileinput"]),
    "compute": frozenset(),
}
"""Denied without the capability, which only the configuration of a loop grants (NC1, NC2)."""

_ALTERNATIVES: Final = {
    "os": "take paths and settings as arguments",
    "subprocess": "compute it in Python",
    "sys": "return a value instead of writing or exiting",
    "socket": "take the data as an argument",
    "requests": "take the data as an argument",
    "httpx": "take the data as an argument",
    "urllib": "take the data as an argument",
    "pathlib": "take the text of the file as an argument",
    "pickle": "use json",
    "threading": "compute it in one thread",
}


def denied_imports(capabilities: Iterable[Capability]) -> Mapping[str, str]:
    """Denied root modules, each with what to do instead."""
    granted = set(capabilities)
    locked = [names for capability, names in UNLOCKED.items() if capability not in granted]
    names = ALWAYS.union(*locked)
    return {name: _ALTERNATIVES.get(name, "use the standard library without it") for name in names}
