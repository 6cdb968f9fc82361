"""How test files are spread over processes: those that need the libraries of training share one process.

Importing these libraries costs a process about 15 processor seconds, half of them in the process that forks trainers.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

_NEEDS_THEM = re.compile(r"^(from tests\.(tiny|coin|learned) | +import torch)", re.MULTILINE)


class FilesWithTrainingTogether(LoadFileScheduling):  # type: ignore[misc]
    """A file is one unit of work; all files that train are one unit."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "training" if _trains(Path(self.config.rootpath, file)) else file


@cache
def _trains(file: Path) -> bool:
    return _NEEDS_THEM.search(file.read_text()) is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesWithTrainingTogether:
    """Use it instead of the scheduler that `--dist` names."""
    return FilesWithTrainingTogether(config, log)
