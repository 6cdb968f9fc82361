"""Entry point of the training processes that `together.py` starts, with request, rank and rendezvous folder."""

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
    """Take part in a distributed training."""
    file, number, folder = arguments
    tempfile.tempdir = folder
    end_with_input()
    request = TrainingRequest.model_validate_json(Path(file).read_bytes())
    rank = Rank(int(number), request.config.processes, Path(folder) / "meeting")
    _tell_accelerate(rank, request.config.threads)
    with own_output() as lines:
        return run_and_report(lambda emit: saved_line(run_stage(request, emit, rank)), lines)


def _tell_accelerate(rank: Rank, threads: int) -> None:
    """Set the environment variables that Accelerate reads for the rank and OpenMP for its threads."""
    number, of = str(rank.number), str(rank.of)
    os.environ.update(RANK=number, LOCAL_RANK=number, WORLD_SIZE=of, LOCAL_WORLD_SIZE=of, OMP_NUM_THREADS=str(threads))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
