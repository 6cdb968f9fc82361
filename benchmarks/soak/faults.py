"""What happens during a soak: commands of an operator, a stopped PostgreSQL, a clock that jumps, a changed segment."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.chaos.cluster import Cluster

from .processes import COMMAND, ROOT

_LIMIT_S = 600
_MOST_SEGMENTS = 4


def flywheel(words: Sequence[str], env: Mapping[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command of an operator to its end."""
    told = {**os.environ, **env, **more}
    return subprocess.run(
        [*COMMAND, *words], cwd=ROOT, env=told, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )


def restart(cluster: Cluster, seconds: float) -> None:
    """Kill all processes of PostgreSQL at once, and start it again after a while."""
    cluster.kill_all()
    time.sleep(seconds)
    cluster.up()


def tampered_is_found(archive: Path, copy: Path, env: Mapping[str, str]) -> tuple[int, int]:
    """Change a byte in a copy of each of four segments in turn: how many were changed, how many verify names.

    The copy is verified in place of the archive itself, which processes under load go on reading.
    """
    segments = sorted(archive.glob("*/*-*"))[:_MOST_SEGMENTS]
    found = 0
    for segment in segments:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(archive, copy)
        file = max((copy / segment.relative_to(archive)).glob("*.parquet"), key=lambda each: each.stat().st_size)
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.chmod(0o600)
        file.write_bytes(content)
        done = flywheel(["log", "verify"], env, FLYWHEEL_ARCHIVE=str(copy))
        found += done.returncode != 0 and segment.name in done.stderr
    return len(segments), found
