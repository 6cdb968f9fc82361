"""The fence around an agent: namespaces of its own under bubblewrap, or none where bubblewrap does not work."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_TRIED_WITHIN_S = 10.0


def fence_words() -> tuple[str, ...]:
    """Words that start a command behind the fence; none where there is no fence.

    An agent sees its own processes only. It reads and writes what this user may otherwise, and reaches the network,
    because it needs its site and its model.
    """
    program = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    return () if program is None or not _works(program) else (*_walls(program), "--")


def run_fence(fence: Sequence[str], home: Path, hidden: Sequence[Path] = ()) -> tuple[str, ...]:
    """The words of the fence of one run: of the homes of all runs it shows this one, and `hidden` folders look empty.

    What is no folder yet is not hidden: it would have to be made.
    """
    if not fence:
        return ()
    covers = [word for folder in hidden if folder.is_dir() for word in ("--tmpfs", str(folder.resolve()))]
    others = ("--tmpfs", str(home.parent), "--bind", str(home), str(home))
    return (*fence[:-1], *covers, *others, fence[-1])


def _walls(program: str) -> tuple[str, ...]:
    return (program, "--dev-bind", "/", "/", "--unshare-pid", "--unshare-ipc", "--proc", "/proc", "--die-with-parent")


@cache
def _works(program: str) -> bool:
    """True if the kernel allows these namespaces."""
    try:
        ended = subprocess.run(  # noqa: S603 bubblewrap, with no input
            [*_walls(program), "--", "/bin/true"], capture_output=True, timeout=_TRIED_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
