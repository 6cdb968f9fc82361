"""Training stages in the process of the tests: the lines of `python -m trainer`, without importing torch once more.

`pytest.mark.usefixtures("stages_here")` lets everything that trains a stage do it here. What only a process shows (that
it is killed, that it dies, that several train together) is tested with processes.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Final

import pytest

from api.training.stage_process import Line, trainer_lines
from trainer.request import TrainingRequest, read_request

LIBRARIES: Final = (
    "matplotlib.backends.backend_agg",
    "peft",
    "trl.trainer.dpo_trainer",
    "trl.trainer.grpo_trainer",
    "trl.trainer.sft_trainer",
)


class ReaderGone(BaseException):
    """Nobody reads what a stage writes any more."""


class Lines(io.StringIO):
    """What a stage writes, handed over line by line: the stage is at most two lines ahead of its reader."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: Queue[str] = Queue(1)
        self._has_reader = True

    def write(self, text: str) -> int:
        """Hand a line over. Raises ReaderGone."""
        if not self._has_reader:
            raise ReaderGone
        self._queue.put(text)
        return len(text)

    def end(self) -> None:
        """Say that no more lines follow."""
        self._queue.put("")

    def written(self) -> Generator[str]:
        """Every line until the end. Where the reader stops early, so does the stage: at its next line."""
        text = ""
        try:
            while text := self._queue.get():
                yield text
        finally:
            self._has_reader = False
            while text:
                text = self._queue.get()


def lines_here(file: Path) -> Generator[Line]:
    """What `lines_of` yields for a request, of a stage that is trained in this process; several get processes."""
    request = read_request(file)
    if isinstance(request, TrainingRequest) and request.config.processes > 1:
        yield from trainer_lines(file)
        return
    lines = Lines()
    with ThreadPoolExecutor(1) as training:
        work = training.submit(_train, file, lines)
        reading = lines.written()
        try:
            for text in reading:
                yield json.loads(text)
        finally:
            reading.close()
    work.result()


def _train(file: Path, lines: Lines) -> None:
    from trainer.__main__ import run_request
    from trainer.process import run_and_report

    try:
        run_and_report(lambda emit: run_request(file, emit, lines), lines)
    except ReaderGone:
        pass
    finally:
        lines.end()


@pytest.fixture(scope="session")
def training_libraries() -> None:
    """Import what training needs, so that no test is charged with it."""
    for name in LIBRARIES:
        importlib.import_module(name)


@pytest.fixture
def stages_here(training_libraries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stages be trained in this process."""
    monkeypatch.setattr("api.training.stages.trainer_lines", lines_here)


@pytest.fixture(autouse=True)
def torch_settings() -> Iterator[None]:
    """Undo what training sets for its whole process, so that no test depends on those before it."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.use_deterministic_algorithms(mode=False)
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(1)
        torch.manual_seed(0)
