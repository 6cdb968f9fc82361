"""Peak memory of a rebuild of all folds, in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.memory import peak_mib
from benchmarks.report import Target, at_most
from eventlog.database import open_engine

from .rebuilding import whole
from .server import Server

RATIO = "rebuild: peak memory, largest log / smallest"
TARGETS: dict[str, Target] = {RATIO: at_most(1.25)}
_ROOT = Path(__file__).parents[2]


def measured(server: Server, project: str) -> dict[str, float]:
    """Peak memory, seconds and events of one rebuild of the log; the rebuilt tables become live."""
    command = [sys.executable, "-m", "benchmarks.log.memory", project]
    done = subprocess.run(command, input=server.app_url, capture_output=True, text=True, check=False, cwd=_ROOT)
    if done.returncode != 0:
        raise RuntimeError(f"the rebuild exited with code {done.returncode}: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def figures_of(found: Mapping[str, float]) -> dict[str, float]:
    """Figures of one rebuild."""
    events = int(found["events"])
    return {
        f"rebuild: peak memory at {events:,} events, MB": found["peak_mb"],
        f"rebuild: all folds at {events:,} events, s": found["seconds"],
    }


def main() -> None:
    """Rebuild all folds in this process; print peak memory, seconds and events."""
    engine = open_engine(sys.stdin.read(), sys.argv[1])
    began = time.perf_counter()
    events = whole(engine)
    print(json.dumps({"seconds": time.perf_counter() - began, "peak_mb": peak_mib(), "events": events}))


if __name__ == "__main__":
    main()
