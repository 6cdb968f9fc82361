"""One of several processes that train together, as `together.py` starts it: its request, its rank, where they meet."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .devices import Rank
from .process import end_with_input, own_output, run_and_report, saved_line
from .request import TrainingRequest
from .stage import run_stage


def main(arguments: Sequence[str]) -> int:
    """Take part in the training that a request asks for."""
    file, number, folder = arguments
    tempfile.tempdir = folder
    end_with_input()
    request = TrainingRequest.model_validate_json(Path(file).read_bytes())
    rank = Rank(int(number), request.config.processes, Path(folder) / "meeting")
    _tell_accelerate(rank, request.config.threads)
    with own_output() as lines:
        return run_and_report(lambda emit: saved_line(run_stage(request, emit, rank)), lines)


def _tell_accelerate(rank: Rank, threads: int) -> None:
    """Accelerate asks the environment who this is, and OpenMP how many threads it may take."""
    number, of = str(rank.number), str(rank.of)
    os.environ.update(RANK=number, LOCAL_RANK=number, WORLD_SIZE=of, LOCAL_WORLD_SIZE=of, OMP_NUM_THREADS=str(threads))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
