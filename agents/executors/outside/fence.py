"""The fence around an agent: namespaces of its own under bubblewrap, or none where bubblewrap does not work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

_TRIED_WITHIN_S: Final = 10.0
_RUNNING: Final = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[3])
"""What a warden is started with: this interpreter, the one that it was made from, and Flywheel's code."""


def fence_words() -> tuple[str, ...]:
    """Words that start a command behind the fence; none where there is no fence.

    An agent sees its own processes only. It reads and writes what this user may otherwise, and reaches the network,
    because it needs its site and its model.
    """
    program = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    return () if program is None or not _works(program) else (*_walls(program), "--")


def run_fence(
    fence: Sequence[str], home: Path, hidden: Sequence[Path] = (), own: Path | None = None
) -> tuple[str, ...]:
    """The words of the fence of one run: of the homes of all runs it shows this one, and `hidden` folders look empty.

    Where one of them holds the agent's `own` folder, this interpreter or Flywheel's code, all other folders in it look
    empty. What is no folder yet is not hidden: it would have to be made.
    """
    if not fence:
        return ()
    needed = [each.resolve() for each in (*_RUNNING, *(() if own is None else (own,)))]
    covered = dict.fromkeys(each for folder in hidden for each in _covers_of(folder.resolve(), needed))
    covers = [word for each in covered for word in ("--tmpfs", str(each))]
    others = ("--tmpfs", str(home.parent), "--bind", str(home), str(home))
    return (*fence[:-1], *covers, *others, fence[-1])


def _covers_of(folder: Path, needed: Sequence[Path]) -> Iterator[Path]:
    """The folder, or else those in it without anything that is needed; none of one that is needed itself."""
    if not folder.is_dir() or folder in needed:
        return
    if not any(each.is_relative_to(folder) for each in needed):
        yield folder
        return
    for each in sorted(folder.iterdir()):
        if not each.is_symlink():
            yield from _covers_of(each, needed)


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
